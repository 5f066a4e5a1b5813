// SPDX-License-Identifier: Apache-2.0
// The OpenAI shapes of an answer. Extensions: `call_id` names the call in the session's tree; with
// `return_token_ids` the ids come in vLLM's fields, `prompt_token_ids` and `choices[].token_ids`.
import type { ChatRequest } from "./parse.ts";
import type { Completion, Codec } from "../../completion/complete.ts";
import type { Alternative, Tokens } from "../../completion/generate.ts";

interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: number[];
}

/** The body of an answer that is not streamed. */
export function completionBody(request: ChatRequest, answer: Completion, codec: Codec): string {
  const { generation, promptIds } = answer;
  const choice = {
    index: 0,
    message: { role: "assistant", content: answer.text, refusal: null },
    logprobs: request.logprobs === undefined ? null : { content: tokenLogprobs(generation, codec) },
    finish_reason: generation.finishReason,
    token_ids: request.returnTokenIds ? generation.ids : undefined,
  };
  return JSON.stringify({
    id: answer.requestId,
    object: "chat.completion",
    created: Math.floor(answer.createdMs / 1000),
    model: request.model,
    choices: [choice],
    usage: usageOf(answer),
    call_id: answer.callId,
    prompt_token_ids: request.returnTokenIds ? promptIds : undefined,
  });
}

/** What every chunk of a stream begins with. */
export interface StreamHead {
  readonly id: string;
  readonly object: "chat.completion.chunk";
  readonly created: number;
  readonly model: string;
}

/** Some text and the tokens it came from. */
export interface Piece {
  readonly text: string;
  readonly tokens: Tokens;
}

/** A chunk with text and, where asked for, what is known about its tokens. */
export function pieceChunk(head: StreamHead, request: ChatRequest, { text, tokens }: Piece, codec: Codec): string {
  const choice = {
    index: 0,
    delta: { content: text },
    logprobs: request.logprobs === undefined ? null : { content: tokenLogprobs(tokens, codec) },
    finish_reason: null,
    token_ids: request.returnTokenIds ? tokens.ids : undefined,
  };
  return event({ ...head, choices: [choice] });
}

/** The first chunk: it says who speaks. */
export function openingChunk(head: StreamHead): string {
  const choice = { index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
  return event({ ...head, choices: [choice] });
}

/** The last chunks, `[DONE]` included. */
export function closingChunks(head: StreamHead, request: ChatRequest, answer: Completion): string {
  const choice = { index: 0, delta: {}, logprobs: null, finish_reason: answer.generation.finishReason };
  const promptIds = request.returnTokenIds ? answer.promptIds : undefined;
  const last = event({ ...head, choices: [choice], call_id: answer.callId, prompt_token_ids: promptIds });
  const usage = request.includeUsage ? event({ ...head, choices: [], usage: usageOf(answer) }) : "";
  return `${last}${usage}data: [DONE]\n\n`;
}

/** One server-sent event. */
export function event(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function usageOf({ promptIds, generation }: Completion): object {
  return {
    prompt_tokens: promptIds.length,
    completion_tokens: generation.ids.length,
    total_tokens: promptIds.length + generation.ids.length,
    prompt_tokens_details: { cached_tokens: generation.cachedTokens },
  };
}

function tokenLogprobs({ ids, logprobs, alternatives }: Tokens, codec: Codec): object[] {
  return ids.map((id, i) => ({
    ...tokenLogprob(id, logprobs[i] ?? 0, codec),
    top_logprobs: (alternatives[i] ?? []).map(({ tokenId, logprob }: Alternative) =>
      tokenLogprob(tokenId, logprob, codec),
    ),
  }));
}

function tokenLogprob(id: number, logprob: number, codec: Codec): TokenLogprob {
  const token = codec.tokenText(id);
  return { token, logprob, bytes: [...Buffer.from(token)] };
}

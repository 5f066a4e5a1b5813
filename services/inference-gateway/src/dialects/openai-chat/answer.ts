// SPDX-License-Identifier: Apache-2.0
// The OpenAI shapes of an answer. Extensions: `call_id` names the call in the session's tree; with
// `return_token_ids` the ids come in vLLM's fields, `prompt_token_ids` and `choices[].token_ids`.
import type { Answer, AnswerPart, ToolCall } from "../../completion/answer.ts";
import { usageOf } from "../openai-usage.ts";
import type { ChatRequest } from "./parse.ts";
import type { Completion, Codec } from "../../completion/complete.ts";
import type { Alternative, Tokens } from "../../completion/generate.ts";

interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: number[];
}

/** The body of an answer that is not streamed. */
export function completionBody(request: ChatRequest, answers: readonly Completion[], codec: Codec): string {
  const [first] = answers;
  return JSON.stringify({
    id: first?.requestId,
    object: "chat.completion",
    created: Math.floor((first?.createdMs ?? 0) / 1000),
    model: request.model,
    choices: answers.map((answer, index) => choiceOf(request, answer, index, codec)),
    usage: usageOf(answers),
    call_id: first?.callId,
    prompt_token_ids: request.returnTokenIds ? first?.promptIds.all() : undefined,
  });
}

function choiceOf(
  request: ChatRequest,
  { answer, generation, callId }: Completion,
  index: number,
  codec: Codec,
): object {
  return {
    index,
    message: messageOf(answer),
    logprobs: request.logprobs === undefined ? null : { content: tokenLogprobs(generation, codec) },
    finish_reason: finishReason(answer.calls.length, generation.finishReason),
    call_id: callId,
    token_ids: request.returnTokenIds ? generation.ids : undefined,
  };
}

/** Thoughts come in DeepSeek's field, which most clients know. */
function messageOf({ content, reasoning, calls }: Answer): object {
  return {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    refusal: null,
    reasoning_content: reasoning === "" ? undefined : reasoning,
    tool_calls: calls.length === 0 ? undefined : calls.map(wireCall),
  };
}

function wireCall({ id, name, arguments: args }: ToolCall): object {
  return { id, type: "function", function: { name, arguments: args } };
}

function finishReason(calls: number, reason: string): string {
  return calls > 0 && reason === "stop" ? "tool_calls" : reason;
}

/** What every chunk of a stream begins with. */
export interface StreamHead {
  readonly id: string;
  readonly object: "chat.completion.chunk";
  readonly created: number;
  readonly model: string;
}

/** Parts of an answer and the tokens they came from. */
export interface Piece {
  /** Which of several answers. */
  readonly index: number;
  readonly parts: readonly AnswerPart[];
  readonly tokens: Tokens;
  /** Calls before these. */
  readonly calls: number;
}

/** Chunks with what the model says and, where asked for, what is known about its tokens. */
export function pieceChunks(head: StreamHead, request: ChatRequest, piece: Piece, codec: Codec): string {
  const { index, parts, tokens } = piece;
  const known = {
    logprobs: request.logprobs === undefined ? null : { content: tokenLogprobs(tokens, codec) },
    token_ids: request.returnTokenIds ? tokens.ids : undefined,
  };
  let calls = piece.calls;
  const deltas =
    parts.length === 0 ? [{ content: "" }] : parts.map((part) => deltaOf(part, part.kind === "call" ? calls++ : 0));
  return deltas
    .map((delta, i) => ({ index, delta, finish_reason: null, ...(i === 0 ? known : { logprobs: null }) }))
    .map((choice) => event({ ...head, choices: [choice] }))
    .join("");
}

function deltaOf(part: AnswerPart, number: number): object {
  if (part.kind === "call") return { tool_calls: [{ index: number, ...wireCall(part.call) }] };
  return part.kind === "content" ? { content: part.text } : { reasoning_content: part.text };
}

/** The first chunk of an answer: it says who speaks. */
export function openingChunk(head: StreamHead, index: number): string {
  const choice = { index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
  return event({ ...head, choices: [choice] });
}

/** The last chunks, `[DONE]` included. */
export function closingChunks(head: StreamHead, request: ChatRequest, answers: readonly Completion[]): string {
  const ends = answers.map(({ answer, generation, callId, promptIds }, index) => {
    const finish_reason = finishReason(answer.calls.length, generation.finishReason);
    const choice = { index, delta: {}, logprobs: null, finish_reason, call_id: callId };
    const ids = request.returnTokenIds ? promptIds.all() : undefined;
    return event({ ...head, choices: [choice], call_id: callId, prompt_token_ids: ids });
  });
  const usage = request.includeUsage ? event({ ...head, choices: [], usage: usageOf(answers) }) : "";
  return `${ends.join("")}${usage}data: [DONE]\n\n`;
}

/** One server-sent event. */
export function event(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
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

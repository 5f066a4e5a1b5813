// SPDX-License-Identifier: Apache-2.0
import type { Codec, Completion } from "../../completion/complete.ts";
import type { Tokens } from "../../completion/generate.ts";
import { usageOf } from "../openai-usage.ts";
import type { TextRequest } from "./parse.ts";

/** The body of an answer that is not streamed. Extensions: as those of chat completions. */
export function completionBody(request: TextRequest, answers: readonly Completion[], codec: Codec): string {
  const [first] = answers;
  const choices = answers.map(({ answer, generation, promptIds, callId }, index) => ({
    ...choiceOf(request, { index, text: answer.content, tokens: generation }, codec),
    finish_reason: generation.finishReason,
    call_id: callId,
    prompt_token_ids: request.returnTokenIds ? promptIds.all() : undefined,
  }));
  const head = headOf(request, first?.requestId ?? "", first?.createdMs ?? 0);
  return JSON.stringify({ ...head, choices, usage: usageOf(answers), call_id: first?.callId });
}

export function headOf({ model }: TextRequest, id: string, createdMs: number): object {
  return { id, object: "text_completion", created: Math.floor(createdMs / 1000), model };
}

export interface TextPiece {
  readonly index: number;
  readonly text: string;
  readonly tokens: Tokens;
}

export function choiceOf(request: TextRequest, { index, text, tokens }: TextPiece, codec: Codec): object {
  return {
    index,
    text,
    logprobs: request.logprobs === undefined ? null : logprobsOf(tokens, codec),
    finish_reason: null,
    token_ids: request.returnTokenIds ? tokens.ids : undefined,
  };
}

function logprobsOf({ ids, logprobs, alternatives }: Tokens, codec: Codec): object {
  const tops = alternatives.map((some) =>
    some.map(({ tokenId, logprob }) => [codec.tokenText(tokenId), logprob] as const),
  );
  return {
    tokens: ids.map((id) => codec.tokenText(id)),
    token_logprobs: logprobs,
    top_logprobs:
      tops.length === 0 ? null : tops.map((entries) => Object.fromEntries(entries) as Record<string, number>),
  };
}

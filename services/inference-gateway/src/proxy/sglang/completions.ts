// SPDX-License-Identifier: Apache-2.0
/** /v1/completions with a prompt of token ids, which the protocol has for engines of few routes: the same call in other words. */
import { parsedJson, RefusedCall } from "../wire/http-parts.ts";
import type { Sampling, Whole } from "./generate.ts";

/** The body of /inference/v1/generate that asks for the same. */
export function generateBodyOf(text: string): string {
  const fields = parsedJson(text);
  if (typeof fields !== "object" || fields === null)
    throw new RefusedCall(400, "BadRequestError", "the body is no JSON object");
  const { model, prompt, request_id, cache_salt, stream, ...sampling_params } = fields as Record<string, unknown>;
  if (stream === true) throw new RefusedCall(400, "BadRequestError", "stream: ask /inference/v1/generate for one");
  return JSON.stringify({ model, request_id, cache_salt, token_ids: prompt, sampling_params });
}

export function completionOf({ parts, all }: Whole, { asked, id, model }: Sampling): object {
  const logprobs = asked.logprobs === undefined ? null : { token_logprobs: all.content.map(({ logprob }) => logprob) };
  const { ids: token_ids, finishReason: finish_reason, stopReason: stop_reason } = all;
  const choice = { index: 0, text: "", token_ids, prompt_token_ids: asked.ids, logprobs, finish_reason, stop_reason };
  return { id, object: "text_completion", model, choices: [choice], usage: parts.usage };
}

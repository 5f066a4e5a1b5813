// SPDX-License-Identifier: Apache-2.0
import { type FieldRules, fieldsWith, HONOURED, IGNORED, refused } from "../field-rules.ts";

/** Every field of a text completion that the gateway knows. */
export const REQUEST_FIELDS: FieldRules = new Map([
  ...fieldsWith(HONOURED, [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "min_p",
    "model",
    "n",
    "presence_penalty",
    "prompt",
    "repetition_penalty",
    "return_token_ids",
    "seed",
    "stop",
  ]),
  ...fieldsWith(HONOURED, ["stream", "stream_options", "temperature", "top_k", "top_p"]),
  ...fieldsWith(IGNORED, ["user"]),

  ["best_of", refused([1], "ask for n answers")],
  ["echo", refused([false], "the client has the prompt")],
  ["suffix", refused([""], "write it into the prompt")],
]);

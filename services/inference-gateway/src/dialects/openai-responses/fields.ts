// SPDX-License-Identifier: Apache-2.0
import { type FieldRules, fieldsWith, HONOURED, IGNORED, refused } from "../field-rules.ts";

/** Every field of a response that the gateway knows. */
export const REQUEST_FIELDS: FieldRules = new Map([
  ...fieldsWith(HONOURED, ["input", "instructions", "max_output_tokens", "model", "parallel_tool_calls"]),
  ...fieldsWith(HONOURED, [
    "previous_response_id",
    "reasoning",
    "seed",
    "store",
    "stream",
    "temperature",
    "text",
    "tool_choice",
  ]),
  ...fieldsWith(HONOURED, ["tools", "top_k", "top_p"]),

  ...fieldsWith(IGNORED, ["client_metadata", "include", "metadata", "prompt_cache_key", "prompt_cache_retention"]),
  ...fieldsWith(IGNORED, ["safety_identifier", "service_tier", "stream_options", "user"]),

  ["background", refused([false], "wait for the answer, or stream it")],
  ["conversation", refused([], "send previous_response_id or the whole input")],
  ["max_tool_calls", refused([], "count the calls in the agent")],
  ["prompt", refused([], "send instructions and input")],
  ["top_logprobs", refused([0], "ask /v1/chat/completions for log-probabilities")],
  ["truncation", refused(["disabled"], "shorten the input in the agent")],
]);

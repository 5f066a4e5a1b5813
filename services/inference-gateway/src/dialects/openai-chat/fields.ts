// SPDX-License-Identifier: Apache-2.0
// Every field of a chat completion that the gateway knows, and what becomes of it. The list in docs/inference-engines.md
// is compared with this one by a test.

import { type FieldRules, HONOURED, IGNORED, refused } from "../field-rules.ts";

const CUT_IN_AGENT = "cut the text in the agent";
const SAMPLED_AS_IS = "tokens are sampled from the model's own distribution, which is what is trained";

/** By name. `null` passes everywhere: it means that the field was not given. */
export const REQUEST_FIELDS: FieldRules = new Map([
  ["chat_template_kwargs", HONOURED],
  ["frequency_penalty", HONOURED],
  ["logit_bias", HONOURED],
  ["logprobs", HONOURED],
  ["max_completion_tokens", HONOURED],
  ["max_tokens", HONOURED],
  ["messages", HONOURED],
  ["min_p", HONOURED],
  ["model", HONOURED],
  ["n", HONOURED],
  ["parallel_tool_calls", HONOURED],
  ["presence_penalty", HONOURED],
  ["repetition_penalty", HONOURED],
  ["response_format", HONOURED],
  ["return_token_ids", HONOURED],
  ["seed", HONOURED],
  ["stop", HONOURED],
  ["stream", HONOURED],
  ["stream_options", HONOURED],
  ["temperature", HONOURED],
  ["tool_choice", HONOURED],
  ["tools", HONOURED],
  ["top_k", HONOURED],
  ["top_logprobs", HONOURED],
  ["top_p", HONOURED],

  ["metadata", IGNORED],
  ["prediction", IGNORED],
  ["priority", IGNORED],
  ["prompt_cache_key", IGNORED],
  ["prompt_cache_retention", IGNORED],
  ["request_id", IGNORED],
  ["safety_identifier", IGNORED],
  ["service_tier", IGNORED],
  ["store", IGNORED],
  ["user", IGNORED],

  ["audio", refused([], "only text comes out")],
  ["bad_words", refused([[]], SAMPLED_AS_IS)],
  ["best_of", refused([1], "send the request several times")],
  ["echo", refused([false], "the client has the prompt")],
  ["function_call", refused(["auto", "none"], "send tool_choice")],
  ["functions", refused([[]], "send tools")],
  ["ignore_eos", refused([false], SAMPLED_AS_IS)],
  ["include_stop_str_in_output", refused([false, true], CUT_IN_AGENT)],
  ["length_penalty", refused([1], SAMPLED_AS_IS)],
  ["min_tokens", refused([0], SAMPLED_AS_IS)],
  ["modalities", refused([["text"]], "only text comes out")],
  ["reasoning_effort", refused([], "a chat template that knows of effort takes it in chat_template_kwargs")],
  ["skip_special_tokens", refused([true], "ask for return_token_ids")],
  ["stop_token_ids", refused([[]], CUT_IN_AGENT)],
  ["use_beam_search", refused([false], SAMPLED_AS_IS)],
  ["verbosity", refused(["medium"], "say it in the messages")],
  ["web_search_options", refused([], "give the model a tool")],
]);

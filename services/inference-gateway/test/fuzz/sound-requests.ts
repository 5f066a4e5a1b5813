// SPDX-License-Identifier: Apache-2.0
// Requests that each dialect answers with 200, rich in fields: what a fuzzer takes apart.

export interface Endpoint {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** What its errors look like. */
  readonly form: "openai" | "anthropic";
  readonly bodies: readonly object[];
}

const MODEL = "job";
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const FUNCTION = { name: "forecast", description: "tells the forecast", parameters: PARAMETERS };
const ARGUMENTS = '{"city":"Oslo"}';
const user = (content: unknown): object => ({ role: "user", content });
const drawing = { temperature: 0.7, top_p: 0.9 };

const chat: Endpoint = {
  method: "POST",
  path: "/v1/chat/completions",
  form: "openai",
  bodies: [
    { model: MODEL, messages: [user("hi")] },
    { model: MODEL, messages: [user("hi"), { role: "assistant", content: "yes" }, user("more")], stream: true },
    {
      ...{ model: MODEL, ...drawing, max_tokens: 40, seed: 7, stop: ["END", "\n\n"], n: 2, stream: true },
      messages: [{ role: "system", content: "be short" }, user([{ type: "text", text: "ä🙂" }])],
      ...{ stream_options: { include_usage: true }, logprobs: true, top_logprobs: 2, return_token_ids: true },
    },
    {
      ...{
        model: MODEL,
        tools: [{ type: "function", function: FUNCTION }],
        tool_choice: "auto",
        top_k: 20,
        min_p: 0.1,
      },
      messages: [
        user("forecast?"),
        {
          ...{ role: "assistant", content: null },
          tool_calls: [{ id: "c1", type: "function", function: { name: "forecast", arguments: ARGUMENTS } }],
        },
        { role: "tool", tool_call_id: "c1", content: "rain" },
      ],
    },
    {
      ...{ model: MODEL, messages: [user("as JSON")], presence_penalty: 0.5, frequency_penalty: -0.5 },
      response_format: { type: "json_schema", json_schema: { name: "place", schema: PARAMETERS } },
      ...{ logit_bias: { 65: 1.5 }, chat_template_kwargs: { enable_thinking: false }, metadata: { a: "b" } },
    },
    {
      ...{ model: MODEL, messages: [user("call")], tools: [{ type: "function", function: FUNCTION }] },
      ...{ tool_choice: { type: "function", function: { name: "forecast" } }, parallel_tool_calls: false },
    },
  ],
};

const responses: Endpoint = {
  method: "POST",
  path: "/v1/responses",
  form: "openai",
  bodies: [
    { model: MODEL, input: "hi" },
    { model: MODEL, input: [{ role: "user", content: [{ type: "input_text", text: "hi" }] }], stream: true },
    {
      ...{ model: MODEL, instructions: "be short", max_output_tokens: 30, ...drawing, stream: true },
      input: [
        user("forecast?"),
        { type: "reasoning", content: [{ type: "reasoning_text", text: "hm" }], summary: [] },
        { type: "function_call", call_id: "c1", name: "forecast", arguments: ARGUMENTS },
        { type: "function_call_output", call_id: "c1", output: "rain" },
      ],
      tools: [{ type: "function", ...FUNCTION }],
      ...{ tool_choice: "auto", parallel_tool_calls: true, store: true },
    },
    {
      ...{ model: MODEL, input: "as JSON", reasoning: { effort: "low" }, store: false },
      text: { format: { type: "json_schema", name: "place", schema: PARAMETERS }, verbosity: "medium" },
    },
  ],
};

const messages: Endpoint = {
  method: "POST",
  path: "/v1/messages",
  form: "anthropic",
  bodies: [
    { model: MODEL, max_tokens: 20, messages: [user("hi")] },
    {
      ...{ model: MODEL, max_tokens: 20, stream: true, ...drawing, top_k: 5, stop_sequences: ["END"] },
      system: [{ type: "text", text: "be short" }],
      messages: [user([{ type: "text", text: "ä🙂" }])],
    },
    {
      ...{ model: MODEL, max_tokens: 60, stream: true, tool_choice: { type: "auto", disable_parallel_tool_use: true } },
      tools: [{ name: "forecast", description: "tells the forecast", input_schema: PARAMETERS }],
      messages: [
        user("forecast?"),
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "s" },
            { type: "text", text: "wait" },
            { type: "tool_use", id: "t1", name: "forecast", input: { city: "Oslo" } },
          ],
        },
        user([{ type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "rain" }] }]),
      ],
    },
  ],
};

const completions: Endpoint = {
  method: "POST",
  path: "/v1/completions",
  form: "openai",
  bodies: [
    { model: MODEL, prompt: "hi" },
    { model: MODEL, prompt: [104, 105], max_tokens: 12, logprobs: 2, return_token_ids: true },
    {
      ...{ model: MODEL, prompt: ["ä🙂"], stream: true, stream_options: { include_usage: true }, n: 2 },
      ...{ stop: "END", seed: 3, repetition_penalty: 1.1, logit_bias: { 65: -1 }, ...drawing },
    },
  ],
};

const models: Endpoint = { method: "GET", path: "/v1/models", form: "openai", bodies: [] };

export const ENDPOINTS: readonly Endpoint[] = [chat, responses, messages, completions, models];

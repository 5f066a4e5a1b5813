// SPDX-License-Identifier: Apache-2.0
import { type AnswerFormat, THINK } from "./format.ts";
import { readJsonCall } from "./read-json.ts";

/** `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one a call: Qwen 2.5 and 3, Hermes. */
export const hermes: AnswerFormat = {
  name: "hermes",
  isOf: (template) => template.includes("<tool_call>"),
  blocks: [{ open: "<tool_call>", close: "</tool_call>", read: (inner) => [readJsonCall(inner.trim())] }],
  thoughts: THINK,
  forced: (name) => `<tool_call>\n{"name": "${name === undefined ? "" : `${name}", "arguments": `}`,
};

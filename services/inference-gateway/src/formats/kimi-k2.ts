// SPDX-License-Identifier: Apache-2.0
import { type AnswerFormat, type ReadCall, THINK } from "./format.ts";
import { malformedCall, readCallOf } from "./read-json.ts";

const ARGUMENTS = "<|tool_call_argument_begin|>";

/** `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`, in a section. */
export const kimiK2: AnswerFormat = {
  name: "kimi_k2",
  isOf: (template) => template.includes("<|tool_calls_section_begin|>"),
  blocks: [{ open: "<|tool_call_begin|>", close: "<|tool_call_end|>", read: (inner) => [readCall(inner)] }],
  dropped: ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", ARGUMENTS],
  thoughts: THINK,
};

/** The header is the call's name among calls: the template prints it again, so it has to come back as it is. */
function readCall(text: string): ReadCall {
  const at = text.indexOf(ARGUMENTS);
  const header = text.slice(0, at < 0 ? text.length : at).trim();
  const name = /^(?:functions\.)?([\w.-]+?)(?::\d+)?$/.exec(header)?.[1];
  if (name === undefined) return malformedCall(undefined, text);
  if (at < 0) return malformedCall(name, text);
  return readCallOf(name, text.slice(at + ARGUMENTS.length), header);
}

// SPDX-License-Identifier: Apache-2.0
import { DEEPSEEK_CALL, DEEPSEEK_MARKS, DEEPSEEK_SEPARATOR } from "./deepseek-v3.ts";
import { type AnswerFormat, type ReadCall, THINK } from "./format.ts";
import { malformedCall, readCallOf } from "./read-json.ts";

/** A call of DeepSeek V3.1: the name, a separator, JSON. */
export const deepseekV31: AnswerFormat = {
  name: "deepseek_v31",
  isOf: (template) => template.includes(DEEPSEEK_CALL.open),
  blocks: [{ ...DEEPSEEK_CALL, read: (inner) => [readCall(inner)] }],
  dropped: [...DEEPSEEK_MARKS, DEEPSEEK_SEPARATOR],
  thoughts: THINK,
};

function readCall(text: string): ReadCall {
  const at = text.indexOf(DEEPSEEK_SEPARATOR);
  if (at < 0) return malformedCall(undefined, text);
  return readCallOf(text.slice(0, at).trim(), text.slice(at + DEEPSEEK_SEPARATOR.length));
}

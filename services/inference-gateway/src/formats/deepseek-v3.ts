// SPDX-License-Identifier: Apache-2.0
import { type AnswerFormat, type ReadCall, THINK } from "./format.ts";
import { malformedCall, readCallOf } from "./read-json.ts";

export const DEEPSEEK_MARKS = ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"];
export const DEEPSEEK_SEPARATOR = "<｜tool▁sep｜>";
export const DEEPSEEK_CALL = { open: "<｜tool▁call▁begin｜>", close: "<｜tool▁call▁end｜>" };

/** A call of DeepSeek V3 and R1: "function", a separator, the name, and its arguments in a fence of Markdown. */
export const deepseekV3: AnswerFormat = {
  name: "deepseek_v3",
  isOf: (template) => template.includes(DEEPSEEK_CALL.open) && template.includes("```json"),
  blocks: [{ ...DEEPSEEK_CALL, read: (inner) => [readCall(inner)] }],
  dropped: [...DEEPSEEK_MARKS, DEEPSEEK_SEPARATOR],
  thoughts: THINK,
};

function readCall(text: string): ReadCall {
  const [, name, args] = /^\s*function<｜tool▁sep｜>([^\n]+)\n```json\n([\s\S]*?)\n?```\s*$/.exec(text) ?? [];
  if (name !== undefined && args !== undefined) return readCallOf(name.trim(), args);
  return malformedCall(/<｜tool▁sep｜>\s*([\w.-]+)/.exec(text)?.[1], text);
}

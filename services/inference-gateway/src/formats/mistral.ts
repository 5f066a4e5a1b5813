// SPDX-License-Identifier: Apache-2.0
import type { AnswerFormat, ReadCall } from "./format.ts";
import { malformedCall, parseJson, readCallOf, readJsonCall } from "./read-json.ts";

/** `[TOOL_CALLS]NAME[ARGS]{…}`, repeated; before tokenizer v11 `[TOOL_CALLS][{"name": …, "arguments": {…}}]`. */
export const mistral: AnswerFormat = {
  name: "mistral",
  isOf: (template) => template.includes("[TOOL_CALLS]"),
  blocks: [{ open: "[TOOL_CALLS]", read: (inner) => readCalls(inner.trim()) }],
  thoughts: { open: "[THINK]", close: "[/THINK]" },
  // Its templates refuse names of any other length.
  idChars: 9,
};

function readCalls(text: string): ReadCall[] {
  if (text.startsWith("[")) return readList(text);
  const [, name = "", id, args = ""] =
    /^([^[{]+?)\s*(?:\[CALL_ID\]([^[]*))?(?:\[ARGS\])?\s*(\{[\s\S]*)?$/.exec(text) ?? [];
  return name === "" ? [malformedCall(undefined, text)] : [readCallOf(name.trim(), args, id)];
}

function readList(text: string): ReadCall[] {
  const list = parseJson(text);
  if (!Array.isArray(list)) return [readJsonCall(text)];
  return list.map((one) => readJsonCall(JSON.stringify(one)));
}

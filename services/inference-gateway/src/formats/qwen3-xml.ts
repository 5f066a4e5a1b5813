// SPDX-License-Identifier: Apache-2.0
import { type AnswerFormat, type ReadCall, THINK, type ToolSchemas } from "./format.ts";
import { goodCall, malformedCall } from "./read-json.ts";
import { schemaValue } from "./schema-value.ts";

/** `<tool_call><function=NAME><parameter=K>VALUE</parameter></function></tool_call>`: Qwen3-Coder, Qwen 3.5 and later. */
export const qwen3Xml: AnswerFormat = {
  name: "qwen3_xml",
  isOf: (template) => template.includes("<tool_call>") && template.includes("<function="),
  blocks: [
    { open: "<tool_call>", close: "</tool_call>", read: (inner, tools) => [readFunction(inner.trim(), tools)] },
    // The outer mark is often forgotten.
    { open: "<function=", close: "</function>", read: (inner, tools) => [readFunction(`<function=${inner}`, tools)] },
  ],
  thoughts: THINK,
  forced: (name) => `<tool_call>\n<function=${name === undefined ? "" : `${name}>\n`}`,
};

function readFunction(text: string, tools: ToolSchemas): ReadCall {
  const [, name, body] = /^<function=([^>\s]+)>([\s\S]*)$/.exec(text) ?? [];
  if (name === undefined || body === undefined) return malformedCall(undefined, text);
  const args: Record<string, unknown> = {};
  for (const [, key = "", value = ""] of body.matchAll(PARAMETER)) {
    // Exactly one line break on either side belongs to the format.
    args[key] = schemaValue(tools, name, key, value.replace(/^\n/, "").replace(/\n$/, ""));
  }
  const left = body.replace(PARAMETER, "").replace("</function>", "").trim();
  return left === "" ? goodCall(name, args) : malformedCall(name, text);
}

/** A parameter that was not closed ends where the next begins. */
const PARAMETER = /<parameter=([^>\n]+)>([\s\S]*?)(?:<\/parameter>|(?=<parameter=)|(?=<\/function>)|$)/g;

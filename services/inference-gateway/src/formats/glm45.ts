// SPDX-License-Identifier: Apache-2.0
import { type AnswerFormat, type ReadCall, THINK, type ToolSchemas } from "./format.ts";
import { goodCall, malformedCall } from "./read-json.ts";
import { schemaValue } from "./schema-value.ts";

/** `<tool_call>NAME<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>`: GLM 4.5 and later. */
export const glm45: AnswerFormat = {
  name: "glm45",
  isOf: (template) => template.includes("<arg_key>"),
  blocks: [{ open: "<tool_call>", close: "</tool_call>", read: (inner, tools) => [readCall(inner.trim(), tools)] }],
  thoughts: THINK,
  forced: (name) => `<tool_call>${name === undefined ? "" : `${name}\n`}`,
};

const ARGUMENT = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g;

function readCall(text: string, tools: ToolSchemas): ReadCall {
  const name = /^[\w.-]+/.exec(text)?.[0];
  if (name === undefined) return malformedCall(undefined, text);
  const body = text.slice(name.length);
  const args: Record<string, unknown> = {};
  for (const [, key = "", value = ""] of body.matchAll(ARGUMENT)) {
    args[key.trim()] = schemaValue(tools, name, key.trim(), value);
  }
  return body.replace(ARGUMENT, "").trim() === "" ? goodCall(name, args) : malformedCall(name, text);
}

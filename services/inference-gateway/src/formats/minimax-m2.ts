// SPDX-License-Identifier: Apache-2.0
import { type AnswerFormat, type ReadCall, THINK, type ToolSchemas } from "./format.ts";
import { goodCall, malformedCall } from "./read-json.ts";
import { schemaValue } from "./schema-value.ts";

/** `<minimax:tool_call><invoke name="f"><parameter name="k">v</parameter></invoke></minimax:tool_call>`. */
export const minimaxM2: AnswerFormat = {
  name: "minimax_m2",
  isOf: (template) => template.includes("<minimax:tool_call>"),
  blocks: [{ open: "<minimax:tool_call>", close: "</minimax:tool_call>", read: readCalls }],
  thoughts: THINK,
  forced: (name) => `<minimax:tool_call>\n<invoke name="${name === undefined ? "" : `${name}">\n`}`,
};

const INVOKE = /<invoke name="?([^">]+)"?>([\s\S]*?)<\/invoke>/g;
const PARAMETER = /<parameter name="?([^">]+)"?>([\s\S]*?)<\/parameter>/g;

function readCalls(text: string, tools: ToolSchemas): ReadCall[] {
  const calls = [...text.matchAll(INVOKE)].map(([, name = "", body = ""]) => readInvoke(name, body, tools));
  const left = text.replace(INVOKE, "").trim();
  return left === "" && calls.length > 0 ? calls : [...calls, malformedCall(/name="([^"]+)"/.exec(left)?.[1], left)];
}

function readInvoke(name: string, body: string, tools: ToolSchemas): ReadCall {
  const args: Record<string, unknown> = {};
  for (const [, key = "", value = ""] of body.matchAll(PARAMETER)) {
    args[key] = schemaValue(tools, name, key, value.replace(/^\n/, "").replace(/\n$/, ""));
  }
  return body.replace(PARAMETER, "").trim() === "" ? goodCall(name, args) : malformedCall(name, body);
}

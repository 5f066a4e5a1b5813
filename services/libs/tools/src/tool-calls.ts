// SPDX-License-Identifier: Apache-2.0
import { type ModelAnswer, splitThinking, type ToolSpec } from "@whetstone/sdk";
import type { ParsedToolCall } from "./tool-registry.ts";

// The format of Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, repeated. One bad call does not
// lose the others; a bad one goes back to the model with what is wrong with it, and is never dropped in silence.

export interface ParsedAnswer {
  readonly thought: string;
  /** What stands beside the calls; the final answer where there are none. */
  readonly text: string;
  readonly calls: readonly ParsedToolCall[];
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
/** Further blocks are not read. */
const MAX_BLOCKS = 64;

/** Calls that the server parsed are taken as they are. @param turn  makes the ids unique in the conversation. */
export function parseAnswer(response: string, answer: Partial<ModelAnswer> = {}, turn = 0): ParsedAnswer {
  const { toolCalls, reasoning, finishReason } = answer;
  const split = splitThinking(response);
  const thought = reasoning ?? split.thought;
  if (toolCalls !== undefined && toolCalls.length > 0) return { thought, text: split.answer, calls: toolCalls };
  return { thought, ...parseToolCalls(split.answer, { turn, cut: finishReason === "length" }) };
}

/** @param options.cut  the answer ran into its token limit: a call that has no end is no call. */
export function parseToolCalls(
  text: string,
  options: { readonly turn?: number; readonly cut?: boolean } = {},
): { text: string; calls: ParsedToolCall[] } {
  const { turn = 0, cut = false } = options;
  const calls: ParsedToolCall[] = [];
  let beside = "";
  let at = 0;
  while (calls.length < MAX_BLOCKS) {
    const open = text.indexOf(OPEN, at);
    if (open < 0) break;
    beside += text.slice(at, open);
    const { end, next } = endOfBlock(text, open + OPEN.length);
    const id = `call_${turn}_${calls.length}`;
    const block = text.slice(open + OPEN.length, end);
    calls.push(
      cut && next === end ? problem(id, block, "the answer was cut off before the call's end.") : parse(id, block),
    );
    at = next;
  }
  return { text: `${beside}${calls.length < MAX_BLOCKS ? text.slice(at) : ""}`.trim(), calls };
}

/** The last block may be left open: the end-of-turn token closed it. */
function endOfBlock(text: string, from: number): { end: number; next: number } {
  const close = text.indexOf(CLOSE, from);
  const open = text.indexOf(OPEN, from);
  if (close >= 0 && (open < 0 || close < open)) return { end: close, next: close + CLOSE.length };
  const end = open < 0 ? text.length : open;
  return { end, next: end };
}

function parse(id: string, block: string): ParsedToolCall {
  let value: unknown;
  try {
    value = JSON.parse(block);
  } catch (error) {
    return problem(id, block, `not valid JSON (${error instanceof Error ? error.message : String(error)}).`);
  }
  const { name, arguments: args = {} } = (value ?? {}) as { name?: unknown; arguments?: unknown };
  if (typeof name !== "string" || name === "") return problem(id, block, '"name" must be the name of a tool.');
  // Some models write the arguments as JSON text once more.
  return { id, name, argumentsJson: typeof args === "string" ? args : JSON.stringify(args) };
}

const FORM = '<tool_call>{"name": "…", "arguments": {…}}</tool_call>';

function problem(id: string, block: string, reason: string): ParsedToolCall {
  return {
    id,
    name: "",
    argumentsJson: block.trim(),
    problem: `the tool call could not be read: ${reason} Write ${FORM}`,
  };
}

/** Qwen's own words for what the model may call and how. Empty without tools. */
export function renderTools(tools: readonly ToolSpec[]): string {
  if (tools.length === 0) return "";
  const signatures = tools.map((tool) => JSON.stringify(tool)).join("\n");
  return `# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
${signatures}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>`;
}

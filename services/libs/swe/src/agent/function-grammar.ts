// SPDX-License-Identifier: Apache-2.0
import { splitThinking, type ToolSpec } from "@whetstone/sdk";
import { FINISH, type ParsedToolCall } from "@whetstone/tools";
import { badCall, type Grammar } from "./grammar.ts";

// R2E-Gym's: <function=NAME><parameter=KEY>VALUE</parameter>…</function>. The first call of an answer counts.

const CALL = /<function\s*=\s*([^>\s]+)\s*>([\s\S]*?)<\/function>/u;
const PARAMETER = /<parameter\s*=\s*([^>]+)>([\s\S]*?)<\/parameter>/gu;
const FORM = "<function=name>\n<parameter=key>value</parameter>\n</function>";

const SUBMIT_TOOL: ToolSpec = {
  type: "function",
  function: {
    name: FINISH,
    description: "Submits what you have done, and ends the work.",
    parameters: {
      type: "object",
      properties: { command: { type: "string", enum: ["submit"] } },
      required: ["command"],
    },
  },
};

export const functionGrammar: Grammar = {
  outputRole: "user",
  describe: (tools) => `You have these functions:

${[...tools, SUBMIT_TOOL].map(described).join("\n\n")}

Answer with your reasoning, followed by exactly one call of a function, in this form and with nothing behind it:

<function=name_of_the_function>
<parameter=name_of_a_parameter>value</parameter>
<parameter=name_of_another>
a value may
have several lines
</parameter>
</function>`,

  read(response, { reasoning }, turn, tools) {
    const { thought, answer } = splitThinking(response);
    const [whole, name = "", body = ""] = CALL.exec(answer) ?? [];
    const said = (whole === undefined ? answer : answer.slice(0, answer.indexOf(whole))).trim();
    const found = { thought: reasoning ?? [thought, said].filter(Boolean).join("\n"), text: "" };
    if (whole === undefined) {
      const what = answer.includes("<function=") ? "the call of a function has no end" : "the answer calls no function";
      return { ...found, calls: [badCall(turn, `${what}. Every answer must call one:\n${FORM}`)] };
    }
    return { ...found, calls: [callOf(name, body, turn, tools)] };
  },
};

function callOf(name: string, body: string, turn: number, tools: readonly ToolSpec[]): ParsedToolCall {
  const types = propertiesOf([...tools, SUBMIT_TOOL].find((tool) => tool.function.name === name));
  const args: Record<string, unknown> = {};
  for (const [, rawKey = "", text = ""] of body.matchAll(PARAMETER)) {
    const key = rawKey.trim();
    if (key in args) return badCall(turn, `the parameter ${key} stands there twice. Write:\n${FORM}`);
    args[key] = valueOf(text, types[key]);
  }
  const beside = body.replace(PARAMETER, "").trim();
  if (beside !== "") return badCall(turn, `"${beside.slice(0, 100)}" stands outside of a parameter. Write:\n${FORM}`);
  return { id: `call_${turn}_0`, name, argumentsJson: JSON.stringify(args) };
}

interface Property {
  readonly type?: unknown;
  readonly enum?: readonly unknown[];
  readonly description?: string;
}

function propertiesOf(tool: ToolSpec | undefined): Readonly<Record<string, Property>> {
  return (tool?.function.parameters?.["properties"] ?? {}) as Readonly<Record<string, Property>>;
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);

/** Text as it is, but for the line breaks next to the marks; anything else in the words that models use for it. */
function valueOf(text: string, { type, enum: choices }: Property = {}): unknown {
  const trimmed = text.trim();
  if (choices !== undefined) return trimmed;
  if (type === "boolean") return BOOLEANS.get(trimmed.toLowerCase()) ?? trimmed;
  if (type === "integer" || type === "number")
    return trimmed !== "" && !Number.isNaN(Number(trimmed)) ? Number(trimmed) : trimmed;
  if (type === "array")
    return /^[[(]?[-\d,\s]+[\])]?$/u.test(trimmed) ? (trimmed.match(/-?\d+/gu) ?? []).map(Number) : trimmed;
  return text.replace(/^\r?\n/u, "").replace(/\r?\n$/u, "");
}

function described(tool: ToolSpec): string {
  const { name, description = "", parameters } = tool.function;
  const required = (parameters?.["required"] ?? []) as readonly string[];
  const lines = Object.entries(propertiesOf(tool)).map(([key, { type, enum: choices, description: what = "" }]) => {
    const kind = [String(type), required.includes(key) ? "required" : "optional"].join(", ");
    const allowed = choices === undefined ? "" : ` One of: ${choices.join(", ")}.`;
    return `  - ${key} (${kind}): ${what}${allowed}`;
  });
  return [`## ${name}`, description, "Parameters:", ...lines].join("\n");
}

// SPDX-License-Identifier: Apache-2.0
import type { ActionSpace } from "../actions/action-space.ts";
import type { Call, Literal } from "../actions/calls.ts";
import { ActionError } from "../actions/action.ts";

/** How an agent writes what it does. */
export const ACTION_FORMS = ["text", "tools"] as const;
export type ActionForm = (typeof ACTION_FORMS)[number];

/** One call of an action, before it is done. */
export interface Asked {
  /** Of a tool call. */
  readonly id: string;
  /** As the agent wrote it. */
  readonly shown: string;
  /** Undefined: it could not be read, for this reason. */
  readonly call: Call | undefined;
  readonly problem: string;
}

/** What came of one. */
export interface Outcome {
  readonly id: string;
  readonly shown: string;
  /** "": it was done. */
  readonly error: string;
}

const MAX_SHOWN = 500;

/** What an action asks for. Text that cannot be read is one that was asked for, too: the agent reads what is wrong with it. */
export function askedBy(action: unknown, form: ActionForm, space: ActionSpace): Asked[] {
  if (form === "tools" && Array.isArray(action)) return action.map((call: unknown, i) => fromTool(call, i));
  const text = typeof action === "string" ? action : "";
  const shown = text.slice(0, MAX_SHOWN);
  // A tool agent that answers with words speaks to the user.
  if (form === "tools")
    return [{ id: "", shown, call: { name: "send_msg_to_user", positional: [text], named: {} }, problem: "" }];
  try {
    return space.parse(text).map((call) => ({ id: "", shown, call, problem: "" }));
  } catch (error) {
    return [{ id: "", shown, call: undefined, problem: told(error) }];
  }
}

function fromTool(given: unknown, index: number): Asked {
  const { id, name, argumentsJson, problem } = (given ?? {}) as Readonly<Record<string, unknown>>;
  const [label, args] = [text(name), text(argumentsJson) || "{}"];
  const asked = { id: text(id) || `call_${index}`, shown: `${label} ${args}`.slice(0, MAX_SHOWN) };
  if (problem !== undefined) return { ...asked, call: undefined, problem: text(problem) };
  try {
    const named: unknown = JSON.parse(args);
    if (typeof named !== "object" || named === null || Array.isArray(named)) throw new Error("they are no object");
    return { ...asked, call: { name: label, positional: [], named: named as Record<string, Literal> }, problem: "" };
  } catch (error) {
    return { ...asked, call: undefined, problem: `the arguments are not valid JSON: ${told(error)}` };
  }
}

/** As the agent `tool` reads them: the page stands in the last. */
export function toolOutputsOf(outcomes: readonly Outcome[], page: string) {
  const last = outcomes.length - 1;
  return {
    toolOutputs: outcomes.map(({ id, error }, i) => {
      const what = error === "" ? "Done." : `Error: ${error}`;
      return { toolCallId: id, output: i === last ? `${what}\n\n${page}` : what, isError: error !== "" };
    }),
  };
}

function told(error: unknown): string {
  if (error instanceof ActionError) return `${error.name}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

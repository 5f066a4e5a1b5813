// SPDX-License-Identifier: Apache-2.0
import type { ActionSchema } from "./wire.ts";

/** An action of the protocol, which is always an object; or why the agent's is none, in words for the agent. */
export type ReadAction = { readonly action: Record<string, unknown> } | { readonly refused: string };

export type ActionReader = (action: unknown) => ReadAction;

const NOT_OF_THE_AGENT = "metadata";

/**
 * An object is the action itself. Text is the value of one field: of the one that is named, or of the only one that the server's
 * schema has. Where there are several, text must be an object in JSON.
 */
export function actionReader(schema: ActionSchema, named: string | undefined): ActionReader {
  const names = Object.keys(schema.properties).filter((name) => name !== NOT_OF_THE_AGENT);
  const field = named ?? theOnly(schema.required) ?? theOnly(names);
  return (action) => {
    if (isObject(action)) return { action };
    if (typeof action !== "string") return { refused: "an action must be text or an object" };
    if (field !== undefined) return { action: { [field]: valueOf(action, schema.properties[field]?.type) } };
    const read = parsed(action);
    return isObject(read) ? { action: read } : { refused: `an action must be a JSON object with ${names.join(", ")}` };
  };
}

/** A number is read where the schema wants one; what is none goes as it is, and the server says what is wrong with it. */
function valueOf(text: string, type: string | undefined): unknown {
  if (type === undefined || type === "string") return text;
  const read = parsed(text.trim());
  return read === undefined ? text : read;
}

function theOnly(names: readonly string[]): string | undefined {
  return names.length === 1 ? names[0] : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

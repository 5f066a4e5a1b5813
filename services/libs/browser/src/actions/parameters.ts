// SPDX-License-Identifier: Apache-2.0
import { ActionError, type Arguments, type Parameter } from "./action.ts";
import type { Call, Literal } from "./calls.ts";

const of = (name: string, type: string, schema: Parameter["schema"], fallback?: Literal): Parameter =>
  fallback === undefined ? { name, type, schema } : { name, type, schema, fallback };

const TEXT = { type: "string" };
const BUTTONS = ["left", "middle", "right"];
const MODIFIERS = ["Alt", "Control", "ControlOrMeta", "Meta", "Shift"];
const literals = (values: readonly string[]): string => `Literal[${values.map((value) => `'${value}'`).join(", ")}]`;

export const text = (name: string): Parameter => of(name, "str", TEXT);
export const number = (name: string, fallback?: number): Parameter => of(name, "float", { type: "number" }, fallback);
export const integer = (name: string): Parameter => of(name, "int", { type: "integer" });
export const flag = (name: string): Parameter => of(name, "bool", { type: "boolean" }, false);
export const texts = (name: string): Parameter =>
  of(name, "str | list[str]", { anyOf: [TEXT, { type: "array", items: TEXT }] });
export const button = of("button", literals(BUTTONS), { type: "string", enum: BUTTONS }, "left");
export const modifiers = of(
  "modifiers",
  `list[${literals(MODIFIERS)}]`,
  { type: "array", items: { type: "string", enum: MODIFIERS } },
  [],
);

/**
 * The arguments of a call by name, with those that were left out.
 * @throws ActionError in Python's words
 */
export function bindArguments({ name, positional, named }: Call, parameters: readonly Parameter[]): Arguments {
  if (positional.length > parameters.length)
    throw typeError(name, `takes ${parameters.length} arguments but ${positional.length} were given`);
  const given: Record<string, Literal> = {};
  for (const [i, value] of positional.entries()) given[parameters[i]?.name ?? ""] = value;
  for (const [key, value] of Object.entries(named)) {
    if (!parameters.some((parameter) => parameter.name === key))
      throw typeError(name, `got an unexpected keyword argument '${key}'`);
    if (key in given) throw typeError(name, `got multiple values for argument '${key}'`);
    given[key] = value;
  }
  for (const parameter of parameters) complete(name, parameter, given);
  return given;
}

function complete(
  name: string,
  { name: key, schema, type, fallback }: Parameter,
  given: Record<string, Literal>,
): void {
  const value = given[key] ?? fallback;
  if (value === undefined) throw typeError(name, `missing a required argument: '${key}'`);
  if (!fits(value, schema))
    throw new ActionError("ValueError", `${name}(): ${key} must be ${type}, not ${shown(value)}`);
  given[key] = value;
}

function fits(value: Literal, schema: Parameter["schema"]): boolean {
  const {
    anyOf,
    type,
    enum: values,
    items,
  } = schema as {
    anyOf?: Parameter["schema"][];
    type?: string;
    enum?: readonly Literal[];
    items?: Parameter["schema"];
  };
  if (anyOf !== undefined) return anyOf.some((each) => fits(value, each));
  if (values !== undefined) return values.includes(value);
  if (type === "array") return Array.isArray(value) && value.every((each: Literal) => fits(each, items ?? {}));
  if (type === "integer") return Number.isSafeInteger(value);
  return type === undefined || (typeof value === type && (type !== "number" || Number.isFinite(value)));
}

function typeError(name: string, what: string): ActionError {
  return new ActionError("TypeError", `${name}() ${what}`);
}

function shown(value: Literal): string {
  return typeof value === "string" ? `'${value.slice(0, 100)}'` : JSON.stringify(value).slice(0, 100);
}

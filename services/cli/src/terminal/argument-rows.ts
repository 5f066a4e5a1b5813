// SPDX-License-Identifier: Apache-2.0
/** Arguments as a table for people, from their JSON Schema. */

/** What is read of a JSON Schema. */
export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

export const ARGUMENT_HEADER = ["ARGUMENT", "TYPE", "RANGE", "DEFAULT", "MEANING"];

/** A row an argument. */
export function argumentRows({ properties = {}, required = [] }: Schema): string[][] {
  return Object.entries(properties).map(([name, schema]) => [
    name,
    typeText(schema),
    rangeText(schema),
    required.includes(name) ? "required" : schema.default === undefined ? "" : JSON.stringify(schema.default),
    schema.description ?? "",
  ]);
}

const TYPES: Readonly<Record<string, string>> = {
  string: "text",
  integer: "whole number",
  number: "number",
  boolean: "true or false",
  object: "object",
  null: "null",
};

function typeText({ type, enum: values, const: value, anyOf, oneOf, items }: Schema): string {
  if (value !== undefined) return JSON.stringify(value);
  if (values) return values.map(String).join(" | ");
  const choices = anyOf ?? oneOf;
  if (choices) return [...new Set(choices.map(typeText))].join(" or ");
  if (type === "array") return items ? `list of ${typeText(items)}` : "list";
  return TYPES[type ?? ""] ?? "any value";
}

function rangeText(schema: Schema): string {
  const { minLength, maxLength, minItems, maxItems } = schema;
  if (minLength !== undefined || maxLength !== undefined) return counted(between(minLength, maxLength), "character");
  if (minItems !== undefined || maxItems !== undefined) return counted(between(minItems, maxItems), "member");
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = schema;
  const over = exclusiveMinimum === undefined ? "" : `over ${exclusiveMinimum}`;
  const under = exclusiveMaximum === undefined ? "" : `under ${exclusiveMaximum}`;
  return [over, between(minimum, maximum), under].filter(Boolean).join(", ");
}

const counted = (range: string, unit: string): string => `${range} ${unit}${range.endsWith(" 1") ? "" : "s"}`;

/** Bounds that every whole number has say nothing. */
function between(from?: number, to?: number): string {
  const [least, most] = [bound(from), bound(to)];
  if (least !== undefined && most !== undefined) return `${least} to ${most}`;
  if (least !== undefined) return `at least ${least}`;
  return most === undefined ? "" : `at most ${most}`;
}

function bound(value: number | undefined): number | undefined {
  return value === undefined || Math.abs(value) === Number.MAX_SAFE_INTEGER ? undefined : value;
}

// SPDX-License-Identifier: Apache-2.0
// What a template computes with: JavaScript's own values, with the meaning that the interpreter of @huggingface/jinja gives
// them. Where that meaning is not plain, NotCompiled is thrown and the interpreter prints instead.

/** Not an error of the template's: this value or form is left to the interpreter, which may refuse it in words of its own. */
export class NotCompiled extends Error {}

export type Value = string | number | boolean | null | undefined | Value[] | ValueObject | Namespace | Callable;
export interface ValueObject {
  readonly [key: string]: Value;
}
export type Callable = (args: readonly Value[], named: ReadonlyMap<string, Value>, scope: Scope) => Value;

export class Namespace {
  readonly values: Map<string, Value>;
  constructor(values: ReadonlyMap<string, Value>) {
    this.values = new Map(values);
  }
}

/** Variables, innermost first. A loop has one scope for all its rounds, a macro that of whoever calls it. */
export class Scope {
  readonly #variables = new Map<string, Value>();
  readonly #parent: Scope | undefined;

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  get(name: string): Value {
    if (this.#variables.has(name)) return this.#variables.get(name);
    return this.#parent?.get(name);
  }

  set(name: string, value: Value): void {
    this.#variables.set(name, value);
  }
}

export function isObject(value: Value): value is ValueObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Namespace);
}

export const has = (object: ValueObject, key: string): boolean => Object.hasOwn(object, key);

export function isTrue(value: Value): boolean {
  if (typeof value !== "object" || value === null) return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Namespace) return true;
  for (const key in value) if (has(value, key)) return true;
  return false;
}

/** What stands in the text for a value. */
export function printed(value: Value): string {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  if (typeof value === "object") return toJson(value, { forUndefined: "undefined" });
  return text(value);
}

/** @throws NotCompiled of what is no text, number or truth value */
export function text(value: Value): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  throw new NotCompiled("a text of something else");
}

export function integer(value: Value): number {
  if (typeof value === "number" && Number.isInteger(value)) return value;
  throw new NotCompiled("something else than a whole number");
}

export function string(value: Value): string {
  if (typeof value === "string") return value;
  throw new NotCompiled("something else than a text");
}

export function array(value: Value): Value[] {
  if (Array.isArray(value)) return value;
  throw new NotCompiled("something else than a list");
}

export interface JsonOptions {
  readonly indent?: number;
  readonly ensureAscii?: boolean;
  readonly forUndefined?: string;
}

const NON_ASCII = /[\x7f-\uffff]/g;

/** As Python's json.dumps writes it. */
export function toJson(value: Value, options: JsonOptions = {}, depth = 0): string {
  const { ensureAscii, forUndefined = "null" } = options;
  if (value === undefined) return forUndefined;
  if (typeof value === "function") throw new NotCompiled("a function as JSON");
  if (typeof value === "string") {
    const quoted = JSON.stringify(value);
    return ensureAscii === true ? quoted.replace(NON_ASCII, escaped) : quoted;
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (value instanceof Namespace) throw new NotCompiled("a namespace as JSON");
  if (Array.isArray(value)) {
    return bracketed(
      "[]",
      value.map((one) => toJson(one, options, depth + 1)),
      options,
      depth,
    );
  }
  const entries = Object.entries(value).map(
    ([key, one]) => `${toJson(key, options)}: ${toJson(one, options, depth + 1)}`,
  );
  return bracketed("{}", entries, options, depth);
}

function bracketed(brackets: string, parts: readonly string[], { indent = 0 }: JsonOptions, depth: number): string {
  const [open = "", close = ""] = brackets;
  if (indent === 0 || parts.length === 0) return open + parts.join(", ") + close;
  const outer = `\n${" ".repeat(indent * depth)}`;
  const inner = outer + " ".repeat(indent);
  return open + inner + parts.join(`,${inner}`) + outer + close;
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

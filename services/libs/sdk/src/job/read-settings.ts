// SPDX-License-Identifier: Apache-2.0
/**
 * Reads the settings of a job, of a YAML file or of code, by the contract's table: every unknown name, wrong type, number out
 * of range and missing setting at once, by path. Answers the JSON that protobuf reads. What settings mean together is the
 * controller's to judge.
 */
import { ConfigError, isWithin, missing, nearest, outOfRange, type Range, type Violation } from "@whetstone/core";

import type { JobDocument } from "./document.ts";
import { type Duration, durationMs, durationText } from "./duration.ts";
import { MESSAGES } from "./generated/fields.ts";
import type { FieldRules, MessageRules } from "./settings-rules.ts";

export interface ReadOptions {
  /** Of what is read, in front of every path. */
  readonly path?: string;
  /** Nothing is missed: somebody else adds the rest. */
  readonly isPart?: boolean;
  /** Settings come from code: durations may be milliseconds, undefined is absent. */
  readonly isCode?: boolean;
}

export interface ReadSettings {
  /** Only of use when there are no violations. */
  readonly json: JobDocument;
  readonly violations: readonly Violation[];
}

/** @param message  of the contract: "JobSpec" */
export function readSettings(message: string, settings: unknown, options: ReadOptions = {}): ReadSettings {
  const reader = new Reader(options.isCode ?? false);
  const json = reader.message(message, settings, options.path ?? "", options.isPart ?? false);
  return { json: (json ?? {}) as JobDocument, violations: reader.violations };
}

/** Settings of code. @throws ConfigError with every violation */
export function readOrThrow(message: string, settings: unknown, path: string): JobDocument {
  const { json, violations } = readSettings(message, settings, { path, isCode: true });
  if (violations.length > 0) throw new ConfigError(violations);
  return json;
}

type Json = unknown;
type Given = Readonly<Record<string, unknown>>;
/** Stands for a value that was refused. */
const REFUSED = null;
const UINT32: Range = { min: 0, max: 2 ** 32 - 1 };
const UINT64 = 2n ** 64n - 1n;

class Reader {
  readonly violations: Violation[] = [];
  readonly #isCode: boolean;

  constructor(isCode: boolean) {
    this.#isCode = isCode;
  }

  message(name: string, value: unknown, path: string, isPart = false): Json {
    const rules = MESSAGES[name] as MessageRules;
    if (rules.isChoice === true && typeof value === "string") return this.#choiceByName(rules, value, path);
    if (!isObject(value)) return this.#wrongType(path, "a mapping of settings", value);
    const result: JobDocument = {};
    for (const [key, inner] of Object.entries(value)) {
      if (inner === undefined && this.#isCode) continue;
      const field = Object.hasOwn(rules.fields, key) ? rules.fields[key] : undefined;
      if (field) result[key] = this.#field(field, inner, join(path, key));
      else this.#refuse(join(path, key), `unknown setting${didYouMean(key, Object.keys(rules.fields))}`);
    }
    if (!isPart) this.#missing(rules, value, path);
    this.#oneofs(rules, value, path);
    return result;
  }

  #missing({ fields }: MessageRules, given: Given, path: string): void {
    for (const [key, { isRequired = false, range, hint }] of Object.entries(fields))
      if (isRequired && given[key] === undefined) this.#refuse(join(path, key), missing(range, hint));
  }

  /** "drop" for { drop: {} }. */
  #choiceByName({ fields }: MessageRules, name: string, path: string): Json {
    const bare = Object.keys(fields).filter((key) => isBare(fields[key]));
    return bare.includes(name)
      ? { [name]: {} }
      : this.#refuse(path, `"${name}" is none of ${bare.join(", ")}${didYouMean(name, bare)}`);
  }

  /** Of a oneof's members, protobuf would silently keep the last. */
  #oneofs({ oneofs = [] }: MessageRules, given: Given, path: string): void {
    for (const { members, isNeeded } of oneofs) {
      const found = members.filter((name) => given[name] !== undefined);
      const all = members.join(", ");
      if (found.length > 1) this.#refuse(path || "(root)", `takes one of ${all}, not ${found.length} of them`);
      if (found.length === 0 && isNeeded) this.#refuse(path || "(root)", `needs one of ${all}`);
    }
  }

  #field(field: FieldRules, value: unknown, path: string): Json {
    if (value === null || value === undefined)
      return this.#refuse(path, "has no value: give one or remove the setting");
    if (field.isList !== true) return this.#single(field, value, path);
    if (!Array.isArray(value)) return this.#wrongType(path, "a list", value);
    return value.map((item, index) => this.#single(field, item, `${path}[${index}]`));
  }

  #single(field: FieldRules, value: unknown, path: string): Json {
    switch (field.type) {
      case "message":
        return this.message(field.message as string, value, path);
      case "mapping":
        return isObject(value) ? value : this.#wrongType(path, "a mapping", value);
      case "bool":
        return typeof value === "boolean" ? value : this.#wrongType(path, "true or false", value);
      case "enum":
        return this.#enumValue(field, value, path);
      case "duration":
        return this.#duration(field, value, path);
      case "string":
      case "bytes":
        return this.#text(field, value, path);
      default:
        return this.#number(field, value, path);
    }
  }

  #number(field: FieldRules, value: unknown, path: string): Json {
    if (field.type !== "double") return this.#integer(field, value, path);
    if (typeof value === "number" && Number.isFinite(value)) return this.#ranged(field, value, path);
    return this.#wrongType(path, "a number", value);
  }

  #text({ pattern, hint }: FieldRules, value: unknown, path: string): Json {
    if (typeof value !== "string") return this.#wrongType(path, "text", value);
    const isGood = pattern === undefined || value === "" || new RegExp(pattern).test(value);
    return isGood ? value : this.#refuse(path, `must be ${hint}`);
  }

  /** By the short name, or by protobuf's: "token-mean", "TOKEN_MEAN", "LOSS_AGGREGATION_TOKEN_MEAN". */
  #enumValue({ prefix = "", choices = [] }: FieldRules, value: unknown, path: string): Json {
    const all = choices.join(", ");
    if (typeof value !== "string") return this.#wrongType(path, `one of ${all}`, value);
    const asked = longName(value).replace(new RegExp(`^${prefix}`), "");
    if (choices.some((choice) => longName(choice) === asked)) return prefix + asked;
    return this.#refuse(path, `"${value}" is none of ${all}${didYouMean(value, choices)}`);
  }

  #duration({ range = {}, hint }: FieldRules, value: unknown, path: string): Json {
    const isText = typeof value === "string" || (this.#isCode && typeof value === "number");
    const ms = isText ? durationMs(value) : undefined;
    const form = `${this.#isCode ? "milliseconds, or " : ""}a duration like "250ms", "30s" or "20m"`;
    if (ms === undefined) return this.#wrongType(path, form, value);
    if (isWithin(ms / 1000, range)) return durationText(value as Duration);
    return this.#refuse(path, outOfRange(range, ms / 1000, hint, " s"));
  }

  /** 64-bit integers may be text, as in protobuf's JSON: a JSON number above 2^53 has lost digits. */
  #integer(field: FieldRules, value: unknown, path: string): Json {
    const isWide = field.type === "uint64";
    if (!isWhole(value, isWide)) return this.#wrongType(path, "a whole number", value);
    if (isWide && typeof value === "number" && !Number.isSafeInteger(value))
      return this.#refuse(path, "put quotes around a number this large");
    if (!isWide) return this.#ranged({ range: UINT32, ...field }, Number(value), path);
    const exact = BigInt(value);
    const range = exact < 0n || exact > UINT64 ? { min: 0, max: Number(UINT64), ...field.range } : field.range;
    const inRange = this.#ranged({ ...field, range }, Number(exact), path, String(exact));
    return inRange === REFUSED ? REFUSED : String(exact);
  }

  #ranged(
    { range, hint }: Pick<FieldRules, "range" | "hint">,
    value: number,
    path: string,
    shown = String(value),
  ): Json {
    if (range === undefined || isWithin(value, range)) return value;
    return this.#refuse(path, outOfRange(range, shown, hint));
  }

  #wrongType(path: string, expected: string, value: unknown): null {
    return this.#refuse(path || "(root)", `must be ${expected}, not ${describe(value)}`);
  }

  #refuse(path: string, reason: string): null {
    this.violations.push({ path, reason });
    return REFUSED;
  }
}

function isWhole(value: unknown, isWide: boolean): value is number | bigint | string {
  if (typeof value === "number") return Number.isInteger(value);
  return typeof value === "bigint" || (isWide && typeof value === "string" && /^-?\d+$/.test(value));
}

function isBare(field: FieldRules | undefined): boolean {
  return Object.keys(MESSAGES[field?.message ?? ""]?.fields ?? {}).length === 0;
}

/** "reinforce++-baseline" → "REINFORCE_PLUS_PLUS_BASELINE". */
function longName(choice: string): string {
  return choice.replaceAll("+", "_PLUS").replaceAll("-", "_").toUpperCase();
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (isObject(value)) return "a mapping";
  if (typeof value === "string") return `the text "${value}"`;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : typeof value;
}

function didYouMean(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  return near === undefined ? "" : `; did you mean "${near}"?`;
}

function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

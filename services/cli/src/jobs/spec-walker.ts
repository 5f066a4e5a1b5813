// SPDX-License-Identifier: Apache-2.0
/**
 * Walks JSON against a message's descriptor before protobuf does, for messages that name the field and say what to do:
 * every unknown setting, wrong type and out-of-range number at once. Answers the JSON that `fromJson` takes.
 */
import type { DescField, DescMessage, JsonObject, JsonValue } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";

import type { Violation } from "../cli-error.ts";
import { nearest } from "../completion/edit-distance.ts";
import { enumFullName, shortNames } from "../terminal/enum-names.ts";

export interface WalkResult {
  readonly json: JsonObject;
  readonly violations: readonly Violation[];
}

/** Checks a parsed YAML or JSON document. `json` is only of use when there are no violations. */
export function walkMessage(schema: DescMessage, document: unknown): WalkResult {
  const violations: Violation[] = [];
  const walk = new Walk(violations);
  return { json: walk.message(schema, document, "") as JsonObject, violations };
}

/** Stands for a value that was refused. */
const REFUSED = null;

class Walk {
  readonly #violations: Violation[];

  constructor(violations: Violation[]) {
    this.#violations = violations;
  }

  message(schema: DescMessage, value: unknown, path: string): JsonValue {
    const wellKnown = WELL_KNOWN[schema.typeName];
    if (wellKnown)
      return wellKnown.test(value) ? (value as JsonValue) : this.#wrongType(path, wellKnown.expected, value);
    if (!isObject(value)) return this.#wrongType(path, "a mapping of settings", value);
    const result: JsonObject = {};
    const byName = new Map(schema.fields.map((field) => [field.jsonName, field]));
    for (const [name, inner] of Object.entries(value)) {
      const at = join(path, name);
      const field = byName.get(name);
      if (!field) this.#refuse(at, `unknown setting${didYouMean(name, [...byName.keys()])}`);
      else if (inner === null || inner === undefined) this.#refuse(at, "has no value: give one or remove the setting");
      else result[name] = this.#field(field, inner, at);
    }
    this.#oneofs(schema, value, path);
    return result;
  }

  /** Of a oneof's members, protobuf would silently keep the last. */
  #oneofs(schema: DescMessage, value: Record<string, unknown>, path: string): void {
    for (const oneof of schema.oneofs) {
      if (oneof.fields.length < 2) continue; // `optional` makes a oneof of one
      const given = oneof.fields.map((field) => field.jsonName).filter((name) => name in value);
      if (given.length > 1)
        this.#refuse(path || "(root)", `takes one of ${given.join(", ")}, not ${given.length} of them`);
    }
  }

  #field(field: DescField, value: unknown, path: string): JsonValue {
    if (field.fieldKind === "list") {
      if (!Array.isArray(value)) return this.#wrongType(path, "a list", value);
      return value.map((item, index) => this.#single(field, item, `${path}[${index}]`));
    }
    if (field.fieldKind === "map")
      return isObject(value) ? (value as JsonObject) : this.#wrongType(path, "a mapping", value);
    return this.#single(field, value, path);
  }

  #single(field: DescField, value: unknown, path: string): JsonValue {
    if (field.message && field.fieldKind !== "map") return this.message(field.message, value, path);
    if (field.enum) return this.#enumValue(field.enum, value, path);
    return field.scalar === undefined ? REFUSED : this.#scalar(field.scalar, value, path);
  }

  #enumValue(schema: NonNullable<DescField["enum"]>, value: unknown, path: string): JsonValue {
    const choices = [...shortNames(schema)].filter(([number]) => number !== 0).map(([, name]) => name);
    if (typeof value !== "string") return this.#wrongType(path, `one of ${choices.join(", ")}`, value);
    const full = enumFullName(schema, value);
    if (full !== undefined) return full;
    return this.#refuse(path, `"${value}" is none of ${choices.join(", ")}${didYouMean(value, choices)}`);
  }

  #scalar(type: ScalarType, value: unknown, path: string): JsonValue {
    if (type === ScalarType.STRING) return typeof value === "string" ? value : this.#wrongType(path, "text", value);
    if (type === ScalarType.BOOL)
      return typeof value === "boolean" ? value : this.#wrongType(path, "true or false", value);
    if (type === ScalarType.DOUBLE || type === ScalarType.FLOAT) {
      return typeof value === "number" && Number.isFinite(value) ? value : this.#wrongType(path, "a number", value);
    }
    const range = INTEGER_RANGE[type];
    return range ? this.#integer(range, value, path) : this.#wrongType(path, "nothing (not supported here)", value);
  }

  /** 64-bit integers may be text, as in protobuf's JSON: a JSON number above 2^53 has lost digits. */
  #integer([least, most]: readonly [bigint, bigint], value: unknown, path: string): JsonValue {
    const wide = most > BigInt(Number.MAX_SAFE_INTEGER);
    const isNumber = typeof value === "number" && Number.isInteger(value);
    const isText = wide && typeof value === "string" && /^-?\d+$/.test(value);
    if (!isNumber && !isText && typeof value !== "bigint") return this.#wrongType(path, "a whole number", value);
    const exact = BigInt(value);
    if (exact < least || exact > most) return this.#refuse(path, `must be from ${least} to ${most}, not ${exact}`);
    if (isNumber && !Number.isSafeInteger(value)) return this.#refuse(path, `put quotes around a number this large`);
    return wide ? String(exact) : Number(exact);
  }

  #wrongType(path: string, expected: string, value: unknown): JsonValue {
    return this.#refuse(path || "(root)", `must be ${expected}, not ${describe(value)}`);
  }

  #refuse(path: string, reason: string): null {
    this.#violations.push({ path, reason });
    return REFUSED;
  }
}

const INTEGER_RANGE: Readonly<Partial<Record<ScalarType, readonly [bigint, bigint]>>> = {
  [ScalarType.UINT32]: [0n, 2n ** 32n - 1n],
  [ScalarType.INT32]: [-(2n ** 31n), 2n ** 31n - 1n],
  [ScalarType.UINT64]: [0n, 2n ** 64n - 1n],
  [ScalarType.INT64]: [-(2n ** 63n), 2n ** 63n - 1n],
};

/** Messages with a JSON form of their own. Source: protobuf.dev, "ProtoJSON format". */
const WELL_KNOWN: Readonly<Record<string, { readonly expected: string; test(value: unknown): boolean }>> = {
  "google.protobuf.Struct": { expected: "a mapping", test: isObject },
  "google.protobuf.Value": { expected: "a value", test: () => true },
  "google.protobuf.Duration": {
    expected: 'a duration in seconds like "30s" or "0.5s"',
    test: (value) => typeof value === "string" && /^\d{1,12}(\.\d{1,9})?s$/.test(value),
  },
  "google.protobuf.Timestamp": {
    expected: 'a time like "2026-01-31T12:00:00Z"',
    test: (value) => typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value)),
  },
};

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

// SPDX-License-Identifier: Apache-2.0
// What becomes of the fields of a request: none is dropped without a word.
import { ApiError } from "../completion/api-error.ts";

/** What becomes of a field. */
export type FieldRule =
  /** It does what the dialect's own API says. */
  | { readonly kind: "honoured" }
  /** It says nothing about the answer, so that leaving it out changes nothing that the client could see in it. */
  | { readonly kind: "ignored" }
  /** It would change the answer and does not work here; only values that ask for nothing pass. */
  | { readonly kind: "refused"; readonly passes: readonly unknown[]; readonly instead: string };

export const HONOURED: FieldRule = { kind: "honoured" };
export const IGNORED: FieldRule = { kind: "ignored" };

export function refused(passes: readonly unknown[], instead: string): FieldRule {
  return { kind: "refused", passes, instead };
}

/** By name. `null` passes everywhere: it means that the field was not given. */
export type FieldRules = ReadonlyMap<string, FieldRule>;

/** Several fields with one rule. */
export function fieldsWith(rule: FieldRule, names: readonly string[]): [string, FieldRule][] {
  return names.map((name) => [name, rule]);
}

/** @throws ApiError 400 naming the first field that would be dropped although it asks for something. */
export function refuseUnsupported(fields: Readonly<Record<string, unknown>>, rules: FieldRules): void {
  for (const [name, value] of Object.entries(fields)) {
    if (value === null) continue;
    const rule = rules.get(name);
    if (rule === undefined) throw unknownField(name);
    if (rule.kind === "refused" && !rule.passes.some((neutral) => isSame(neutral, value)))
      throw unsupportedField(name, rule.instead);
  }
}

function unsupportedField(name: string, instead: string): ApiError {
  return new ApiError("UNSUPPORTED_SETTING", "unsupported_parameter", `${name}: is not supported; ${instead}`, {
    param: name,
  });
}

function unknownField(name: string): ApiError {
  const message = `${name}: no such field; docs/any-agent.md says which are known`;
  return new ApiError("UNKNOWN_SETTING", "unknown_parameter", message, { param: name });
}

/** Neutral values are small, whatever the client sends. */
function isSame(neutral: unknown, value: unknown): boolean {
  if (typeof neutral !== "object" || typeof value !== "object" || value === null) return neutral === value;
  if (Array.isArray(neutral) !== Array.isArray(value)) return false;
  const [wanted, given] = [Object.entries(neutral as object), value as Record<string, unknown>];
  return Object.keys(given).length === wanted.length && wanted.every(([key, one]) => given[key] === one);
}

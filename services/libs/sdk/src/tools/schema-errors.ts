// SPDX-License-Identifier: Apache-2.0
import type { OutputUnit } from "@cfworker/json-schema";

const OUTER: ReadonlySet<string> = new Set(["properties", "items", "anyOf", "oneOf", "allOf"]);

/** The innermost complaints of a schema: the outer ones only say that something inside is wrong. */
export function innermost(errors: readonly OutputUnit[]): readonly OutputUnit[] {
  const inner = errors.filter(({ keyword }) => !OUTER.has(keyword));
  return inner.length > 0 ? inner : errors;
}

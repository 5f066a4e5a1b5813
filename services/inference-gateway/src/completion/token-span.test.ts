// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { appendSpan, foreignLabel } from "./token-span.ts";
import type { TokenSpan } from "./token-span.ts";

const span = (version: string, start: number, end: number) => ({ version, start, end });

describe("foreignLabel (I5)", () => {
  it.each([
    ["covers all", [span("a:1", 0, 2), span("a:1", 2, 3)], 3, undefined],
    ["no tokens, no spans", [], 0, undefined],
    ["another label", [span("a:1", 0, 2), span("a:2", 2, 3)], 3, "a:2"],
    ["no list", undefined, 1, ""],
    ["a gap", [span("a:1", 0, 1), span("a:1", 2, 3)], 3, ""],
    ["too short", [span("a:1", 0, 2)], 3, ""],
    ["too long", [span("a:1", 0, 4)], 3, ""],
    ["backwards", [span("a:1", 0, 3), span("a:1", 3, 2)], 2, ""],
  ])("%s", (_name, spans, length, expected) => {
    expect(foreignLabel(spans, length, "a:1")).toBe(expected);
  });
});

describe("appendSpan", () => {
  it("joins runs of one version that touch, and keeps gaps and switches apart", () => {
    const spans: TokenSpan[] = [];
    appendSpan(spans, 0, 0, 1n);
    appendSpan(spans, 0, 2, 1n);
    appendSpan(spans, 2, 3, 1n);
    appendSpan(spans, 3, 4, 2n);
    appendSpan(spans, 6, 7, 2n);
    expect(spans).toEqual([
      { start: 0, end: 3, policyVersion: 1n },
      { start: 3, end: 4, policyVersion: 2n },
      { start: 6, end: 7, policyVersion: 2n },
    ]);
  });
});

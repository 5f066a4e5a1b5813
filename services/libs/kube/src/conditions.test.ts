// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { findCondition, isTrue, setCondition } from "./conditions.ts";

const at = (second: number): Date => new Date(Date.UTC(2026, 0, 1, 0, 0, second));

describe("conditions", () => {
  it("moves the transition time only with the status", () => {
    const first = setCondition([], { type: "Ready", status: false, reason: "Starting" }, at(1));
    const second = setCondition(
      first,
      { type: "Ready", status: false, reason: "Waiting", message: "for a node" },
      at(2),
    );
    const third = setCondition(second, { type: "Ready", status: true, reason: "Up", observedGeneration: 3 }, at(3));
    expect(second).toEqual([
      {
        type: "Ready",
        status: "False",
        reason: "Waiting",
        message: "for a node",
        lastTransitionTime: "2026-01-01T00:00:01Z",
      },
    ]);
    expect(third[0]).toMatchObject({
      status: "True",
      observedGeneration: 3,
      lastTransitionTime: "2026-01-01T00:00:03Z",
    });
    expect(isTrue(third, "Ready")).toBe(true);
    expect(isTrue(second, "Ready")).toBe(false);
  });

  it("keeps the others and their order, and never changes its argument", () => {
    const before = ["A", "B"].reduce(
      (list, type) => setCondition(list, { type, status: "Unknown", reason: "New" }, at(0)),
      setCondition(undefined, { type: "C", status: "Unknown", reason: "New" }, at(0)),
    );
    const frozen = structuredClone(before);
    const after = setCondition(before, { type: "A", status: true, reason: "Done" }, at(5));
    expect(before).toEqual(frozen);
    expect(after.map(({ type }) => type)).toEqual(["C", "A", "B"]);
    expect(findCondition(after, "B")).toEqual(frozen[2]);
  });
});

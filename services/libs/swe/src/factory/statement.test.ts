// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { orderOfTries, pairsOf } from "./choose.ts";
import type { PossibleBug } from "./planter.ts";
import { difficultyOf, hintsOf, statementOf } from "./statement.ts";

const bug = (more: Partial<PossibleBug> = {}): PossibleBug => ({
  path: "src/lib/core.py",
  function: "Thing.clamp",
  kind: "compare",
  line: 7,
  tests: 3,
  ...more,
});
const library = { name: "lib", version: "1.0", summary: "Counts." };

describe("a statement", () => {
  it("says what is seen, and not where it comes from", () => {
    const failed = {
      "tests/test_a.py::test_a": "assert 3 == 4",
      "tests/test_a.py::test_clamp": "TypeError: clamp() got 3",
      "tests/test_a.py::test_b": "core.py:7: ValueError",
    };
    const statement = statementOf({ library, bugs: [bug()], failed });
    expect(statement).toContain("assert 3 == 4");
    expect(statement).toContain("3 of its tests fail");
    expect(statement).not.toMatch(/clamp|core/u);
  });

  it("has hints that go from the vague to the exact", () => {
    const hints = hintsOf({ library, bugs: [bug()], failed: { "tests/test_a.py::test_a": "" } });
    expect(hints.map((hint) => [/test_a/u, /core\.py/u, /Thing\.clamp/u].map((what) => what.test(hint)))).toEqual([
      [true, false, false],
      [false, true, false],
      [false, false, true],
    ]);
  });

  it.each([
    [[bug()], "easy"],
    [[bug({ tests: 100 })], "medium"],
    [[bug({ kind: "removed_body" })], "hard"],
    [[bug(), bug({ function: "other" })], "hard"],
  ])("knows how difficult it is", (bugs, difficulty) => {
    expect(difficultyOf({ bugs })).toBe(difficulty);
  });
});

describe("places", () => {
  const bugs = Array.from({ length: 12 }, (_, i) =>
    bug({ kind: i < 10 ? "compare" : "off_by_one", function: `f${i % 4}` }),
  );

  it("are tried kind after kind, the same ones for the same seed", () => {
    const order = orderOfTries(bugs, 3);
    expect(order.toSorted((a, b) => a - b)).toEqual(bugs.map((_, i) => i));
    expect(order.slice(0, 4).filter((number) => number >= 10)).toHaveLength(2);
    expect(orderOfTries(bugs, 3)).toEqual(order);
    expect(orderOfTries(bugs, 4)).not.toEqual(order);
  });

  it("are paired across functions, each once", () => {
    const pairs = pairsOf([0, 1, 2, 4, 5], bugs, 1);
    expect(pairs).toHaveLength(2);
    expect(new Set(pairs.flat()).size).toBe(4);
    for (const [a, b] of pairs) expect(bugs[a]?.function).not.toBe(bugs[b]?.function);
  });
});

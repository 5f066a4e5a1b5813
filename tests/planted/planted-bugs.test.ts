// SPDX-License-Identifier: Apache-2.0
// Breaks rules on purpose in a copy of the services; the service's own tests must notice each of them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BUGS } from "./bugs.ts";
import { type Copy, copyServices } from "./copy.ts";

const TIMEOUT_MS = 120_000;
let copy: Copy;

beforeAll(() => {
  copy = copyServices();
}, TIMEOUT_MS);
afterAll(() => {
  copy[Symbol.dispose]();
});

describe("a rule broken on purpose", () => {
  it(
    "is what makes them fail: they pass as the code is",
    async () => {
      const { passed, output } = await copy.test(...new Set(BUGS.map(({ suite }) => suite)));
      expect(passed, output).toBe(true);
    },
    TIMEOUT_MS,
  );

  it.each(BUGS)(
    "$name: its tests fail",
    async (bug) => {
      copy.plant(bug);
      const { passed, output } = await copy.test(bug.suite);
      copy.restore(bug);
      expect(passed, output).toBe(false);
      // Failed by a test, not by an import that is not there.
      expect(output).toMatch(/Tests.*failed/);
    },
    TIMEOUT_MS,
  );
});

// SPDX-License-Identifier: Apache-2.0
// Breaks rules on purpose in a copy of the services; the service's own tests must notice each of them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BUGS } from "./bugs.ts";
import { type Copy, copyRepository } from "./copy.ts";

const TIMEOUT_MS = 120_000;
let copy: Copy;

beforeAll(() => {
  copy = copyRepository();
}, TIMEOUT_MS);
afterAll(() => {
  copy[Symbol.dispose]();
});

describe("a rule broken on purpose", () => {
  it(
    "is what makes them fail: they pass as the code is",
    async () => {
      const { result, output } = await copy.test(...BUGS);
      expect(result, output).toBe("passed");
    },
    TIMEOUT_MS,
  );

  it.each(BUGS)(
    "$row: its tests fail",
    async (bug) => {
      using _planted = copy.plant(bug);
      const { result, output } = await copy.test(bug);
      expect(result, output).toBe("failed");
    },
    TIMEOUT_MS,
  );
});

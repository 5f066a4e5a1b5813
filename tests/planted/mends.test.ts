// SPDX-License-Identifier: Apache-2.0
// That each mend can still be taken away, and that each row of docs/faults.md has one. `make planted` takes them away.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { edited } from "./edit.ts";
import { MENDS } from "./mends.ts";

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
/** Rows whose mend is a page, or the sum of others. */
const WITHOUT = ["`make images`", "thousands of generated job specifications", "a hundred thousand mutated requests"];

/** What was done, of each row. */
const rows = read("docs/faults.md")
  .split("\n")
  .filter((line) => line.startsWith("| "))
  .map((line) => line.split(" | ")[0]?.slice(2) ?? "")
  .filter((cell) => !/^(what was (done|broken)|-+)$/.test(cell));

describe("a mend", () => {
  it("has its text exactly once in its file, and a test that is there", () => {
    for (const edit of MENDS) {
      expect(edited(read(edit.file), edit)).not.toBe(read(edit.file));
      expect([edit.test, existsSync(join(ROOT, edit.test))]).toEqual([edit.test, true]);
    }
  });

  it("belongs to one row of docs/faults.md", () => {
    for (const { row } of MENDS) expect([row, rows.filter((cell) => cell.startsWith(row)).length]).toEqual([row, 1]);
  });
});

it("every row of docs/faults.md has a mend", () => {
  const named = [...MENDS.map(({ row }) => row), ...WITHOUT];
  expect(rows.filter((cell) => !named.some((row) => cell.startsWith(row)))).toEqual([]);
});

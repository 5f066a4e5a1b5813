// SPDX-License-Identifier: Apache-2.0
// The tasks that come with the project: there are enough of them, and their repairs are what repairs them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readRecord, type SweTask, SweTaskSchema } from "@whetstone/swe";
import { describe, expect, it } from "vitest";

const FOLDER = join(import.meta.dirname, "../../examples/swe/tasks");

describe("tasks of repairing libraries", () => {
  const read = (split: string): SweTask[] =>
    readFileSync(join(FOLDER, `${split}.jsonl`), "utf8")
      .trim()
      .split("\n")
      .map((line) => SweTaskSchema.parse((JSON.parse(line) as { payload: unknown }).payload));
  const [train, heldout] = [read("train"), read("heldout")];
  const librariesOf = (tasks: readonly SweTask[]): Set<string> => new Set(tasks.map(({ library }) => library));

  it("are 500 and more, of 15 libraries and more, as many as docs/swe.md says", () => {
    const page = readFileSync(join(import.meta.dirname, "../../docs/swe.md"), "utf8");
    const said = /has (\d+) tasks of (\d+) libraries/u.exec(page)?.slice(1).map(Number);
    const all = [...train, ...heldout];
    expect([all.length, librariesOf(all).size]).toEqual(said);
    expect(all.length).toBeGreaterThanOrEqual(500);
    expect(librariesOf(all).size).toBeGreaterThanOrEqual(15);
  });

  it("have no library in both splits", () => {
    expect(librariesOf(heldout).size).toBeGreaterThanOrEqual(3);
    expect([...librariesOf(train).intersection(librariesOf(heldout))]).toEqual([]);
  });

  it("break tests that their library's list has, and take about a kilobyte each", async () => {
    for (const library of librariesOf([...train, ...heldout])) {
      const { stable, sdist } = await readRecord(join(FOLDER, "libraries", library));
      const known = new Set(stable);
      for (const task of [...train, ...heldout].filter((each) => each.library === library)) {
        expect(task.sdist).toBe(sdist.sha256);
        expect(task.failToPass.filter((test) => !known.has(test))).toEqual([]);
      }
    }
    const bytes = ["train", "heldout"].map((split) => readFileSync(join(FOLDER, `${split}.jsonl`)).length);
    expect(bytes.reduce((sum, each) => sum + each, 0) / (train.length + heldout.length)).toBeLessThan(2500);
  });
});

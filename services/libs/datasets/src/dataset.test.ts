// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { parquetWriteFile } from "hyparquet-writer";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Dataset } from "./dataset.ts";
import type { CursorState } from "./cursor.ts";
import { passRateBetween } from "./curation.ts";
import type { DatasetTask } from "./task.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-datasets-"));
  vi.stubEnv("WHETSTONE_DATASETS", folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const ids = async (dataset: Dataset): Promise<string[]> => (await dataset.toArray()).map(({ id }) => id);
const letters = Dataset.fromRows(
  [..."abcdefgh"].map((id) => ({ id })),
  "letters",
);

describe("rows become tasks", () => {
  it("id, source and demonstration are the task's own, all other columns its payload", async () => {
    const demonstration = [{ role: "user", content: "?" }];
    const rows = [
      { question: "1+1", answer: 2 },
      { id: 7, source: "amc", question: "x", demonstration },
    ];
    expect(await Dataset.fromRows(rows, "sums").toArray()).toEqual([
      { id: "sums-0", payload: { question: "1+1", answer: 2 }, source: "sums" },
      { id: "7", payload: { question: "x" }, source: "amc", demonstration },
    ]);
  });

  it("a row that is a task stays one; a payload column beside others is a column", async () => {
    const rows = [
      { id: "t", payload: { seed: 1 } },
      { id: "u", payload: { seed: 1 }, extra: 1 },
    ];
    const tasks = await Dataset.fromRows(rows, "n").toArray();
    expect(tasks.map(({ payload }) => payload)).toEqual([{ seed: 1 }, { payload: { seed: 1 }, extra: 1 }]);
  });

  it.each([
    ["[1]\n", /a\.jsonl:1: not a task: must be an object/],
    ['{"x":1}\n\n{"x":\n', /a\.jsonl:3: not JSON/],
    ['{"id":""}\n', /a\.jsonl:1: not a task: id/],
    ['{"demonstration":[{"role":"robot"}]}\n', /a\.jsonl:1: not a task: demonstration\.0\.role/],
  ])("a bad line %j is refused with file, line and column", async (text, message) => {
    await expect(Dataset.fromJsonl(file("a.jsonl", text)).toArray()).rejects.toThrow(message);
  });

  it("what JSON cannot hold is refused, what it can hold otherwise is turned", async () => {
    const rows = [{ big: 5n, huge: 2n ** 70n, day: new Date(0) }];
    const [task] = await Dataset.fromRows(rows).toArray();
    expect(task?.payload).toEqual({ big: 5, huge: "1180591620717411303424", day: "1970-01-01T00:00:00.000Z" });
    await expect(Dataset.fromRows([{ x: { y: [NaN] } }], "n").toArray()).rejects.toThrow(/row 0: payload\.x\.y\[0\]/);
  });
});

describe("files", () => {
  it("CSV: quotes, byte order mark; a column is numbers only when all its cells are", async () => {
    const text = '\uFEFFid,question,n,zip,ok\r\na,"says ""1, 2""\nand 3",1.5,007,true\r\nb,plain,,12,false\r\n';
    expect(await Dataset.fromFile(file("q.csv", text)).toArray()).toEqual([
      { id: "a", payload: { question: 'says "1, 2"\nand 3', n: 1.5, zip: "007", ok: true }, source: "q" },
      { id: "b", payload: { question: "plain", zip: "12", ok: false }, source: "q" },
    ]);
  });

  it("CSV: a row of the wrong length is refused with its line, and a column can be kept as text", async () => {
    await expect(Dataset.fromCsv(file("q.csv", "a,b\n1,2\n3\n")).toArray()).rejects.toThrow(/q\.csv:.*line 3/);
    const [task] = await Dataset.fromCsv(file("q.csv", "a\n1\n"), { text: ["a"] }).toArray();
    expect(task?.payload).toEqual({ a: "1" });
  });

  it("Parquet: values and order, more rows than are read at once", async () => {
    const count = 10_000;
    const filename = join(folder, "q.parquet");
    const data = Array.from({ length: count }, (_, i) => i);
    parquetWriteFile({
      filename,
      columnData: [
        { name: "question", data: data.map((i) => `q${i}`), type: "STRING" },
        { name: "n", data: data.map(BigInt), type: "INT64" },
      ],
    });
    const tasks = await Dataset.fromFile(filename).toArray();
    expect(tasks).toHaveLength(count);
    expect(tasks[9_999]).toEqual({ id: "q-9999", payload: { question: "q9999", n: 9999 }, source: "q" });
    await expect(Dataset.fromParquet(file("bad.parquet", "no parquet")).toArray()).rejects.toThrow(/bad\.parquet/);
  });
});

describe("operations", () => {
  it("are a recipe: nothing is read before, and no more than is taken", async () => {
    let read = 0;
    const rows = (function* (): Generator<object> {
      for (;;) yield { n: (read += 1) };
    })();
    const dataset = Dataset.fromRows(rows, "n")
      .filter(({ payload }) => Number(payload["n"]) % 2 === 0)
      .take(3);
    expect(read).toBe(0);
    expect(await ids(dataset)).toEqual(["n-1", "n-3", "n-5"]);
    expect(read).toBe(6);
  });

  it("repeat puts copies side by side with ids of their own; a shuffle keeps every task once", async () => {
    expect(await ids(letters.take(2).repeat(3))).toEqual(["a", "a#2", "a#3", "b", "b#2", "b#3"]);
    const shuffled = await ids(letters.shuffle(3));
    expect(shuffled.toSorted()).toEqual([..."abcdefgh"]);
    expect(shuffled).not.toEqual([..."abcdefgh"]);
    expect(await ids(letters.shuffle(3))).toEqual(shuffled);
    expect(await ids(letters.shuffle(4))).not.toEqual(shuffled);
    expect(await letters.repeat(3).count()).toBe(24);
  });

  it.each([
    ["repeat", () => letters.repeat(0)],
    ["take", () => letters.take(1.5)],
    ["shuffle's seed", () => letters.shuffle(-1)],
    ["count", () => Dataset.fromSeeds(0, 0)],
  ])("%s out of range is refused", (what, call) => {
    expect(call).toThrow(new RegExp(`${what} must be a whole number`));
  });

  it("passRateBetween keeps what an evaluation found neither solved nor hopeless", async () => {
    const tasks = [..."abcd"].map((id, correct) => ({ id, episodes: 3, correct }));
    const report = { tasks: [...tasks, { id: "e", episodes: 0, correct: 0 }] };
    expect(await ids(letters.filter(passRateBetween(report, 0.3, 0.7)))).toEqual(["b", "c"]);
    expect(await ids(letters.filter(passRateBetween(report, 0, 1)))).toEqual(["a", "b", "c", "d"]);
    const more = { tasks: [{ id: "a", episodes: 3, correct: 3 }] };
    expect(await ids(letters.filter(passRateBetween([report, more], 0.5, 0.5)))).toEqual(["a"]);
    expect(() => passRateBetween(report, 0.7, 0.3)).toThrow(/low ≤ high/);
    expect(() => passRateBetween({} as typeof report, 0, 1)).toThrow(/report/);
  });
});

describe("cursor", () => {
  it("goes on exactly after a restore, over the end of a pass", async () => {
    const straight = await letters.cursor({ seed: 5, shuffle: true });
    const whole = Array.from({ length: 40 }, () => straight.next().id);
    for (const stop of [0, 3, 8, 13, 24]) {
      const first = await letters.cursor({ seed: 5, shuffle: true });
      for (let i = 0; i < stop; i += 1) first.next();
      const state = JSON.parse(JSON.stringify(first.state())) as CursorState;
      const second = await letters.cursor({ state });
      expect(Array.from({ length: 40 - stop }, () => second.next().id)).toEqual(whole.slice(stop));
    }
    expect(whole.slice(0, 8).toSorted()).toEqual(whole.slice(8, 16).toSorted());
    expect(whole.slice(0, 8)).not.toEqual(whole.slice(8, 16));
    expect(whole.slice(0, 8)).toEqual(await ids(letters.shuffle(5)));
  });

  it("refuses the state of other tasks or another order", async () => {
    const state = (await letters.cursor()).state();
    await expect(letters.take(3).cursor({ state })).rejects.toThrow(/not the one/);
    const other = await letters.cursor({ seed: 1, shuffle: true });
    expect(() => other.restore(state)).toThrow(/another seed/);
  });
});

describe("toSpec", () => {
  const linesOf = (path: string): string[] =>
    readFileSync(path, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as DatasetTask).id);

  it("leaves the last take, shuffle and repeat to the job, and writes the rest to a file named by its digest", async () => {
    const spec = (await letters
      .shuffle(1)
      .filter(({ id }) => id > "b")
      .take(4)
      .shuffle(9)
      .repeat(2)
      .toSpec()) as {
      jsonl: string;
    };
    expect(spec).toEqual({ jsonl: expect.any(String) as string, take: 4, shuffleSeed: 9, repeat: 2 });
    const shuffled = await ids(letters.shuffle(1));
    expect(linesOf(spec.jsonl)).toEqual(shuffled.filter((id) => id > "b"));
    expect(await letters.toSpec()).toEqual(await letters.filter(() => true).toSpec());
    expect(readdirSync(join(folder, ".tasks"))).toHaveLength(2);
  });

  it("what a job would do in another order is written out", async () => {
    const spec = (await letters.repeat(2).take(3).toSpec()) as { jsonl: string };
    expect(spec).toMatchObject({ take: 3 });
    expect(linesOf(spec.jsonl).slice(0, 3)).toEqual(["a", "a#2", "b"]);
    const turned = (await letters.shuffle(2).take(3).shuffle(1).toSpec()) as { jsonl: string };
    expect(linesOf(turned.jsonl)).toEqual(await ids(letters.shuffle(2)));
  });

  it("seeds need no file", async () => {
    expect(await Dataset.fromSeeds(5, 10).take(3).toSpec()).toEqual({ seeds: { first: 5, count: 10 }, take: 3 });
    expect(await Dataset.fromSeeds(5, 2).toArray()).toEqual([
      { id: "seed-5", payload: { seed: 5 }, source: "default" },
      { id: "seed-6", payload: { seed: 6 }, source: "default" },
    ]);
  });

  it("a dataset with two tasks of one id, or none, is refused, and leaves nothing behind", async () => {
    await expect(letters.map((task) => ({ ...task, id: "same" })).toSpec()).rejects.toThrow(/two tasks have the id/);
    await expect(letters.filter(() => false).toSpec()).rejects.toThrow(/at least one task/);
    expect(readdirSync(join(folder, ".tasks"))).toEqual([]);
  });
});

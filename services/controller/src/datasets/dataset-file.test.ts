// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { DatasetSchema } from "@whetstone/proto/jobs/v1/jobs";
import { Dataset, DatasetStore } from "@whetstone/datasets";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { loadDataset } from "./dataset-file.ts";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "whetstone-dataset-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const load = (json: JsonObject) => loadDataset(fromJson(DatasetSchema, json));
const idsOf = async (json: JsonObject, count: number): Promise<string[]> => {
  const tasks = await load(json);
  return Promise.all(Array.from({ length: count }, async (_, position) => (await tasks.at(position)).id));
};
const seeds = { first: "1", count: "10" };

describe("a job's dataset", () => {
  it("takes, shuffles what it took anew in each pass, and repeats what it shuffled", async () => {
    const ids = await idsOf({ seeds, take: "4", shuffleSeed: "3", repeat: 2 }, 16);
    const first = ids.filter((_, position) => position < 8 && position % 2 === 0);
    expect(first.toSorted()).toEqual(["seed-1", "seed-2", "seed-3", "seed-4"]);
    expect(ids.slice(0, 8)).toEqual(first.flatMap((id) => [id, `${id}#2`]));
    expect(ids.slice(8).toSorted()).toEqual(ids.slice(0, 8).toSorted());
    expect(ids.slice(8)).not.toEqual(ids.slice(0, 8));
    expect((await load({ seeds, take: "4", repeat: 3 })).length).toBe(12);
    expect((await load({ seeds, take: "99" })).length).toBe(10);
  });

  it("goes through the tasks as the SDK's dataset does, pass after pass", async () => {
    const store = new DatasetStore(folder);
    const rows = Array.from({ length: 30 }, (_, n) => ({ n, source: n % 2 ? "odd" : "even" }));
    const dataset = await store.register("numbers", "train", rows);
    const path = join(folder, "numbers/train.jsonl");
    const cursor = await dataset.take(20).cursor({ seed: 8, shuffle: true });
    const tasks = await load({ jsonl: path, take: "20", shuffleSeed: "8" });
    for (let position = 0; position < 50; position += 1) {
      const { id, payload, source } = cursor.next();
      expect(await tasks.at(position)).toMatchObject({ id, payload, source });
    }
    const ids = (await dataset.take(5).shuffle(2).repeat(3).toArray()).map((task) => task.id);
    expect(await idsOf({ jsonl: path, take: "5", shuffleSeed: "2", repeat: 3 }, 15)).toEqual(ids);
    expect((await Dataset.fromSeeds(1, 10).shuffle(7).toArray()).map((task) => task.id)).toEqual(
      await idsOf({ seeds, shuffleSeed: "7" }, 10),
    );
  });

  it("refuses a bad line by file and line, unless it lies beyond what is taken", async () => {
    const path = join(folder, "bad.jsonl");
    writeFileSync(path, '{"id":"a","payload":{}}\n\n{"id":"b","colour":1}\n');
    await expect(load({ jsonl: path })).rejects.toThrow(/bad\.jsonl:3:11: not a task/);
    expect((await load({ jsonl: path, take: "1" })).length).toBe(1);
    writeFileSync(path, "\n");
    await expect(load({ jsonl: path })).rejects.toThrow(/no tasks/);
  });
});

// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Dataset } from "./dataset.ts";
import { DatasetRegistry } from "./registry.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-registry-"));
  vi.stubEnv("WHETSTONE_DATASETS", folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const ids = async (dataset: Dataset): Promise<string[]> => (await dataset.toArray()).map(({ id }) => id);

describe("DatasetRegistry", () => {
  it("registers, loads, lists and removes splits", async () => {
    await DatasetRegistry.register("sums", [{ q: 1 }, { q: 2 }], "train", { description: "small sums" });
    await DatasetRegistry.register("sums", Dataset.fromSeeds(3, 1), "test");
    expect(await ids(DatasetRegistry.load("sums", "train"))).toEqual(["sums-0", "sums-1"]);
    expect(await DatasetRegistry.splits("sums")).toEqual(["test", "train"]);
    const [info] = await DatasetRegistry.list();
    expect(info).toMatchObject({ name: "sums", splits: [{ rows: 1 }, { rows: 2, description: "small sums" }] });
    expect(info?.splits[1]?.digest).toMatch(/^[0-9a-f]{64}$/);
    expect(await DatasetRegistry.remove("sums", "test")).toBe(true);
    expect(await DatasetRegistry.exists("sums", "test")).toBe(false);
    expect(await DatasetRegistry.remove("sums")).toBe(true);
    expect(await DatasetRegistry.list()).toEqual([]);
    expect(await DatasetRegistry.remove("sums")).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("load reads nothing; reading what is not there says what there is", async () => {
    const later = DatasetRegistry.load("later");
    await expect(later.toArray()).rejects.toThrow(/no such dataset.*whet datasets add later <file> --split default/);
    await DatasetRegistry.register("later", [{ a: 1 }]);
    expect(await ids(later)).toEqual(["later-0"]);
    await expect(DatasetRegistry.load("later", "test").toArray()).rejects.toThrow(/has only default/);
  });

  it("a failed registration leaves what was there", async () => {
    await DatasetRegistry.register("kept", [{ id: "old" }]);
    await expect(DatasetRegistry.register("kept", [{ id: "x" }, { id: "x" }])).rejects.toThrow(/two tasks/);
    expect(await ids(DatasetRegistry.load("kept"))).toEqual(["old"]);
    expect(await DatasetRegistry.exists("kept")).toBe(true);
    expect(readdirSync(join(folder, "kept")).sort()).toEqual(["default.json", "default.jsonl"]);
  });

  it("a submitted job keeps its tasks when the dataset is registered anew", async () => {
    await DatasetRegistry.register("turning", [{ id: "old" }]);
    const before = (await DatasetRegistry.load("turning").shuffle(1).toSpec()) as { jsonl: string };
    await DatasetRegistry.register("turning", [{ id: "new" }]);
    const after = (await DatasetRegistry.load("turning").shuffle(1).toSpec()) as { jsonl: string };
    expect(before.jsonl).not.toBe(after.jsonl);
    expect(readFileSync(before.jsonl, "utf8")).toContain('"old"');
    expect(readFileSync(after.jsonl, "utf8")).toContain('"new"');
    expect(await DatasetRegistry.load("turning").shuffle(1).toSpec()).toEqual(after);
  });

  it("a source that breaks off registers nothing", async () => {
    const path = join(folder, "in.jsonl");
    writeFileSync(path, '{"a":1}\n{"a":\n');
    await expect(DatasetRegistry.register("broken", Dataset.fromJsonl(path))).rejects.toThrow(/in\.jsonl:2/);
    expect(await DatasetRegistry.exists("broken")).toBe(false);
  });

  it.each(["", "../x", ".tasks", "a/b", "a b"])("the name %j is refused", async (name) => {
    expect(() => DatasetRegistry.load(name)).toThrow(/starts with a letter or digit/);
    await expect(DatasetRegistry.register("ok", [{ a: 1 }], name)).rejects.toThrow(/a dataset's split/);
  });
});

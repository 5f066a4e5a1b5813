// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { create } from "@bufbuild/protobuf";
import { DatasetSchema } from "@whetstone/proto/jobs/v1/jobs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { loadDataset } from "./dataset-file.ts";
import { readLines, UnreadableFileError } from "./file-lines.ts";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "whetstone-lines-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const dataset = (path: string) => loadDataset(create(DatasetSchema, { source: { case: "jsonl", value: path } }));

describe("a dataset's file", () => {
  it("is read line by line, whatever ends them and wherever chunks do", async () => {
    const path = join(folder, "a.jsonl");
    const lines = ["é".repeat(50_000), "", "b\r", "ü".repeat(70_001)];
    writeFileSync(path, lines.join("\n"));
    expect(await Array.fromAsync(readLines(path))).toEqual(lines);
    writeFileSync(path, "");
    expect(await Array.fromAsync(readLines(path))).toEqual([]);
  });

  it("with a line of 600 MiB is refused by file and line, and the process lives", async () => {
    const path = join(folder, "train.jsonl");
    const file = openSync(path, "w");
    ftruncateSync(file, 600 * 1024 * 1024); // Zeros without a newline; the disk holds none of them.
    closeSync(file);
    await expect(dataset(path)).rejects.toThrow(`${path}:1: longer than 16 MiB`);
  });

  it.each(["a pipe", "a folder", "a device"])("that is %s is refused before it is opened", async (what) => {
    const path = what === "a device" ? "/dev/zero" : join(folder, "train.jsonl");
    if (what === "a pipe") execFileSync("mkfifo", [path]);
    const asked = what === "a folder" ? folder : path;
    // Five of them held all threads that read files.
    const ends = await Promise.allSettled(Array.from({ length: 5 }, () => dataset(asked)));
    for (const end of ends) expect(String((end as PromiseRejectedResult).reason)).toMatch(/is no ordinary file/);
  });

  it("that is absent says so in a class of its own", async () => {
    await expect(dataset(join(folder, "none.jsonl"))).rejects.toThrow(UnreadableFileError);
  });

  it("on a mount that does not answer is given up", async () => {
    const program = join(folder, "hangs.mjs");
    writeFileSync(program, "setInterval(() => undefined, 1000);");
    const reading = Array.fromAsync(readLines("/mnt/train.jsonl", { program, silenceMs: 300 }));
    await expect(reading).rejects.toThrow(/^\/mnt\/train.jsonl: could not be read: nothing came for too long/);
  });
});

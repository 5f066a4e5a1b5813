// SPDX-License-Identifier: Apache-2.0
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { FeedbackSchema } from "@whetstone/proto/inference/v1/inference";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FeedbackFiles } from "./feedback-files.ts";

let root: string;
let files: FeedbackFiles;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "whetstone-feedback-"));
  files = new FeedbackFiles(root);
});
afterEach(() => rmSync(root, { recursive: true }));

const said = (id: string, serving = "bot") => create(FeedbackSchema, { id, serving, task: JSON.stringify({ id }) });
async function read(serving: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const part of files.read(serving))
    ids.push(...part.map((line) => (JSON.parse(line) as { id: string }).id));
  return ids;
}

it("is kept by serving, in order, and what is told again is stored once", async () => {
  expect(await read("bot")).toEqual([]);
  await files.add([said("a"), said("b", "other"), said("c")]);
  await files.add([said("c"), said("d")]);
  expect(await read("bot")).toEqual(["a", "c", "d"]);
  expect(await read("other")).toEqual(["b"]);
});

it("is read without a line that a crash has cut, in parts of bounded size", async () => {
  await files.add([said("a")]);
  appendFileSync(join(root, "feedback", "bot.jsonl"), '\n{"id":"cut');
  expect(await read("bot")).toEqual(["a"]);
  await files.add([said("b")]);
  // The cut line has lost its end for good; what comes after it has a line of its own.
  expect(await read("bot")).toEqual(["a", "b"]);
  expect(readFileSync(join(root, "feedback", "bot.jsonl"), "utf8")).toContain("cut");
});

// SPDX-License-Identifier: Apache-2.0
// What is fetched, kept and evicted. The store is one in memory; tests/integration/artifacts.test.ts has the real one.
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { GetArtifactResponseSchema, ReadFileResponseSchema } from "@whetstone/proto/artifacts/v1/artifacts";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ArtifactCache, type ArtifactSource } from "./artifact-cache.ts";

const [ONE, TWO, THREE] = ["11".repeat(32), "22".repeat(32), "33".repeat(32)];
const signal = AbortSignal.timeout(20_000);
let folder: string;
/** Paths that were read from the store. */
let read: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-cache-"));
  read = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Every artifact has the same three files of 10 bytes. */
const FILES: Record<string, string> = {
  "a.txt": "a".repeat(10),
  "deep/b.txt": "b".repeat(10),
  "deep/c": "c".repeat(10),
};
function storeOf(sent = (text: string): string => text): ArtifactSource {
  const files = Object.entries(FILES).map(([path, text]) => ({ path, size: BigInt(text.length), sha256: sha(text) }));
  return {
    getArtifact: () => Promise.resolve(create(GetArtifactResponseSchema, { artifact: { files } })),
    async *readFile({ path = "" }) {
      read.push(path);
      await Promise.resolve();
      yield create(ReadFileResponseSchema, { content: Buffer.from(sent(FILES[path] ?? "")) });
    },
  };
}
const open = (maxBytes = 100, source = storeOf()) => new ArtifactCache({ folder, maxBytes, source });
const text = (digest: string, file = ""): string => `artifact://tasks/t@sha256:${digest}${file}`;
const use = (cache: ArtifactCache, ...texts: string[]) => cache.use({ of: texts }, signal);
const kept = (): string[] => readdirSync(folder).filter((name) => !name.startsWith("evicted-"));

it("an argument that names a file, a folder or all gets what it names, and no more is fetched", async () => {
  const cache = open();
  using file = await use(cache, text(ONE, "/a.txt"));
  expect([file.args, read]).toEqual([{ of: [join(folder, ONE, "a.txt")] }, ["a.txt"]]);
  using below = await use(cache, text(ONE, "/deep"));
  expect([below.args, read]).toEqual([{ of: [join(folder, ONE, "deep")] }, ["a.txt", "deep/b.txt", "deep/c"]]);
  using all = await use(cache, text(ONE));
  expect(all.args).toEqual({ of: [join(folder, ONE)] });
  expect(read).toHaveLength(3);
  expect(readFileSync(join(folder, ONE, "deep/c"), "utf8")).toBe(FILES["deep/c"]);
  await expect(use(cache, text(ONE, "/dee"))).rejects.toThrow(/of\[0\].*has no "dee"/);
});

it("sessions that begin together wait for one fetch", async () => {
  const cache = open();
  const held = await Promise.all([1, 2, 3].map(() => use(cache, text(ONE, "/a.txt"))));
  expect(read).toEqual(["a.txt"]);
  for (const one of held) one[Symbol.dispose]();
});

it("what was used longest ago goes first, and what an open session has stays", async () => {
  const cache = open(60);
  using _open = await use(cache, text(ONE));
  (await use(cache, text(TWO)))[Symbol.dispose]();
  (await use(cache, text(THREE, "/a.txt")))[Symbol.dispose]();
  expect(kept().toSorted()).toEqual([ONE, THREE]);
  using _second = await use(cache, text(TWO));
  expect(kept().toSorted()).toEqual([ONE, TWO]);
  await expect(use(cache, text(THREE))).rejects.toThrow(/60 of 60 are taken by open sessions/);
});

it("what another process left counts, and its drafts go", async () => {
  (await use(open(), text(ONE)))[Symbol.dispose]();
  writeFileSync(join(folder, ONE, "a.txt.77.draft"), "half");
  const cache = open(30);
  using _held = await use(cache, text(ONE));
  expect([read.length, readdirSync(join(folder, ONE))]).toEqual([3, ["a.txt", "deep"]]);
  await expect(use(cache, text(TWO, "/a.txt"))).rejects.toThrow(/30 of 30/);
});

it("a file that arrives otherwise than it is stored is not kept, and takes no room", async () => {
  const cache = open(
    30,
    storeOf((one) => (read.length > 1 ? one : one.toUpperCase())),
  );
  await expect(use(cache, text(ONE, "/a.txt"))).rejects.toMatchObject({ code: "DATA_LOSS" });
  expect(readdirSync(join(folder, ONE))).toEqual([]);
  using held = await use(cache, text(ONE));
  expect(held.args).toEqual({ of: [join(folder, ONE)] });
});

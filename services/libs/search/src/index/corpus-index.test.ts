// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRng } from "@whetstone/core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildIndex } from "./build-index.ts";
import { CorpusIndex } from "./corpus-index.ts";
import { wordsOf } from "./words.ts";

const N = 400;
const rng = createRng(7);
/** Few words are common and many rare, as in a language; two of other scripts. */
const word = (): string => ["straße", "Κύπρος"][rng.integer(60)] ?? `w${Math.floor(500 ** rng.next()).toString(36)}`;
const passages = Array.from({ length: N }, (_, i) => ({
  id: `p${i}`,
  title: word(),
  text: Array.from({ length: 1 + rng.integer(60) }, word).join(", "),
}));
const queries = Array.from({ length: 60 }, () => Array.from({ length: 1 + rng.integer(6) }, word).join(" "));

const texts = passages.map(({ title, text }) => wordsOf(`${title} ${text}`));
const meanLength = texts.reduce((sum, words) => sum + words.length, 0) / N;
const passagesWith = (one: string): number => texts.filter((words) => words.includes(one)).length;

/** The formula as it is written, over all passages. */
function naive(query: string, k1: number, b: number): { id: string; score: number }[] {
  const words = wordsOf(query).map((one) => ({ one, n: passagesWith(one) }));
  const scored = texts.map((text, i) => {
    const parts = words.map(({ one, n }) => {
      const tf = text.filter((other) => other === one).length;
      const idf = Math.log(1 + (N - n + 0.5) / (n + 0.5));
      return tf === 0 ? 0 : (idf * tf * (k1 + 1)) / (tf + k1 * (1 - b + (b * text.length) / meanLength));
    });
    return { id: `p${i}`, score: parts.reduce((sum, part) => sum + part, 0) };
  });
  return scored.filter(({ score }) => score > 0).sort((x, y) => y.score - x.score);
}

let folder: string;
let corpus: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-index-"));
  corpus = join(folder, "corpus.jsonl");
  writeFileSync(corpus, passages.map((one) => `${JSON.stringify(one)}\n`).join(""));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const digest = "0".repeat(64);

describe("an index on disk", () => {
  it.each([undefined, 500])("ranks as the formula says, built in runs of %s postings", async (runPostings) => {
    const path = join(folder, "index");
    const meta = await buildIndex({ corpus, digest, folder: path, runPostings });
    expect(meta.passages).toBe(N);
    await using index = await CorpusIndex.open(path);
    for (const [k1, b] of [
      [1.2, 0.75],
      [0.9, 0.4],
      [2, 0],
      [0, 1],
    ] as const) {
      for (const query of queries) {
        const found = await index.search(query, 10, { k1, b });
        const right = naive(query, k1, b);
        expect(found.length).toBe(Math.min(10, right.length));
        for (const [i, { document, score }] of found.entries()) {
          expect(score).toBeCloseTo(right[i]?.score ?? 0, 9);
          expect(right.find(({ id }) => id === document.id)?.score).toBeCloseTo(score, 9);
          expect(document).toEqual(passages[Number(document.id.slice(1))]);
        }
      }
    }
  });

  it("is the same whatever the size of its runs, finds the same with a cache of nothing, and nothing for unknown words", async () => {
    const [one, other] = [join(folder, "one"), join(folder, "other")];
    await buildIndex({ corpus, digest, folder: one });
    await buildIndex({ corpus, digest, folder: other, runPostings: 200 });
    await using first = await CorpusIndex.open(one);
    await using second = await CorpusIndex.open(other, { cacheBytes: 0 });
    for (const query of queries) expect(await first.search(query, 5)).toEqual(await second.search(query, 5));
    for (const query of ["", "?!", "zzz unknown", "\u0000"]) expect(await first.search(query, 5)).toEqual([]);
  });

  it("answers 200 queries at once as one after the other", async () => {
    await buildIndex({ corpus, digest, folder: join(folder, "index") });
    await using index = await CorpusIndex.open(join(folder, "index"), { cacheBytes: 2_000 });
    const many = Array.from({ length: 200 }, (_, i) => queries[i % queries.length] as string);
    const atOnce = await Promise.all(many.map((query) => index.search(query, 3)));
    for (const [i, query] of many.entries()) expect(atOnce[i]).toEqual(await index.search(query, 3));
  });

  it.each(["postings.bin", "words.tsv", "lengths.u32", "passages.jsonl", "passages.f64", "words.json"])(
    "names %s when it is cut, changed or missing",
    async (name) => {
      const path = join(folder, "index");
      await buildIndex({ corpus, digest, folder: path });
      const file = join(path, name);
      const whole = readFileSync(file);
      const refused = async (): Promise<unknown> =>
        await CorpusIndex.open(path).catch((error: unknown) => (error as Error).message);
      writeFileSync(file, whole.subarray(0, -1));
      expect(await refused()).toMatch(
        new RegExp(`${name} has ${whole.length - 1} bytes instead of ${whole.length}`, "u"),
      );
      const changed = Buffer.from(whole);
      changed[changed.length >> 1] = (changed[changed.length >> 1] as number) ^ 1;
      writeFileSync(file, changed);
      expect(await refused()).toMatch(new RegExp(`${name} is damaged`, "u"));
      rmSync(file);
      expect(await refused()).toMatch(new RegExp(`${name} is missing`, "u"));
    },
  );

  it.each([
    ['{"text": 3}', /line 1: needs "id" and "text"/u],
    ['{"text": "a"}\nnonsense', /line 2/u],
    ["\n\n", /it has no passages/u],
  ])("refuses the corpus %j", async (text, message) => {
    writeFileSync(corpus, text);
    await expect(buildIndex({ corpus, digest, folder: join(folder, "index") })).rejects.toThrow(message);
  });
});

// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CorpusDocument } from "@whetstone/tools";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeSearchTasks } from "./make-search-tasks.ts";
import { oracleTurn } from "./oracle.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-questions-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface Payload {
  readonly question: string;
  readonly answer: string;
  readonly metadata: { readonly path: readonly string[] };
}

async function make(hops: number, seed = 5, counts = { train: 60, heldout: 20 }) {
  const made = await makeSearchTasks({ folder, counts, hops, seed });
  const corpus = readFileSync(made.corpus.path, "utf8").trimEnd().split("\n");
  const passages = corpus.map((line) => JSON.parse(line) as CorpusDocument);
  const payloads = made.splits.map(({ tasks }) => tasks.map(({ payload }) => payload as unknown as Payload));
  return { passages, payloads, corpus: corpus.join("\n") };
}

describe("made questions", () => {
  it.each([1, 2, 3, 4])("of %i hops: all differ, each is proven, and splits share no entity", async (hops) => {
    const { passages, payloads } = await make(hops);
    expect(payloads.map(({ length }) => length)).toEqual([60, 20]);
    const all = payloads.flat();
    expect(new Set(all.map(({ question }) => question)).size).toBe(80);
    for (const { question, answer, metadata } of all) {
      expect(metadata.path.length).toBe(hops + 1);
      expect(question).not.toContain(answer);
      const first = passages.find(({ title }) => title === metadata.path[0]);
      if (hops > 1) expect(first?.text).not.toContain(answer);
    }
    const [train, heldout] = payloads.map((split) => new Set(split.flatMap(({ metadata }) => metadata.path)));
    expect([...(train ?? [])].filter((name) => heldout?.has(name))).toEqual([]);
  });

  it("are the same for the same seed, and others for another", async () => {
    const [one, again, other] = [await make(2), await make(2), await make(2, 6)];
    expect(again).toEqual(one);
    expect(other.corpus).not.toBe(one.corpus);
  });

  it("are not more than there are", async () => {
    await expect(make(1, 1, { train: 1, heldout: 1 })).resolves.toBeDefined();
    await expect(makeSearchTasks({ folder, counts: { train: 1, heldout: 0 }, hops: 40, seed: 1 })).rejects.toThrow(
      /there are only 0 questions of 40 hops/u,
    );
  });

  it("the oracle reads what it is shown and knows nothing else", () => {
    const question = "What is the river of the birthplace of the founder of Xor?";
    expect(oracleTurn(question, "")).toEqual({ search: "Xor" });
    expect(oracleTurn(question, "Xor was founded by Ban.")).toEqual({ search: "Ban" });
    const read = "Xor was founded by Ban. Ban was born in Tol. Tol lies on the river Wem.";
    expect(oracleTurn(question, read)).toEqual({ answer: "Wem" });
    expect(() => oracleTurn("Who is it?", "")).toThrow(/not a made question/u);
  });
});

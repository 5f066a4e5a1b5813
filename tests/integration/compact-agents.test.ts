// SPDX-License-Identifier: Apache-2.0
// The agents of examples/multi-hop and examples/clicks, which make letters of names and elements: every question and every page can be
// solved by letters alone.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BrowserEnvironment, Miniwob } from "@whetstone/browser";
import { canHaveBrowsers, miniwobFolder, startTestPool, type TestPool } from "@whetstone/browser/test-support";
import { IndexStore, makeSearchTasks, TagSearchEnvironment } from "@whetstone/search";
import { AgentExecutionEngine, type ChatMessage } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clicker } from "../../examples/clicks/agent.ts";
import { TASKS } from "../../examples/clicks/tasks.ts";
import { Seeker } from "../../examples/multi-hop/agent.ts";

const QUESTIONS = 24;

/** A model that says what this makes of its prompt. */
function answering(answer: (prompt: string) => string) {
  const usage = { promptTokens: 9, completionTokens: 2 };
  let calls = 0;
  return async ([message]: readonly ChatMessage[]) => {
    calls += 1;
    const text = answer(String(message?.content));
    return await Promise.resolve({ text, finishReason: "stop", usage, callId: `c${calls}` });
  };
}

/** What each relation of a question is called in a passage, by the question's word for it. */
const SAYS: Readonly<Record<string, string>> = {
  founder: "founded by",
  seat: "seat in",
  birthplace: "born in",
  teacher: "taught by",
  river: "the river",
  patron: "patronage of",
  source: "rises on",
  "first climber": "climbed by",
};

/** Reads the notes alone: the letter to search for next, or the answer's in upper case. */
function readNotes(notes: string): string {
  const relations = [...(notes.split("\n")[0] ?? "").matchAll(/the ([a-z ]+?) of/gu)]
    .map(([, word = ""]) => word)
    .reverse();
  let at = "a";
  for (const relation of relations) {
    const next = new RegExp(`\\b${at} [a-z ]*${SAYS[relation]} ([a-p])\\.`, "u").exec(notes)?.[1];
    if (next === undefined) return at;
    at = next;
  }
  return at.toUpperCase();
}

it("answers made questions of two hops by letters", async () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-multi-hop-"));
  try {
    const { corpus, splits } = await makeSearchTasks({
      folder,
      counts: { train: QUESTIONS, heldout: 1 },
      hops: 2,
      seed: 5,
    });
    await using indexes = new IndexStore({ folder: join(folder, "index") });
    const searcher = await indexes.get(corpus.path);
    const engine = new AgentExecutionEngine({
      rolloutClient: { chat: answering(readNotes) },
      agentFactory: () => new Seeker(),
      environmentFactory: ({ question, answer }) =>
        new TagSearchEnvironment({
          task: { question: String(question), answer: String(answer) },
          searcher,
          results: 1,
        }),
    });
    for (const task of splits[0]?.tasks ?? []) {
      const episode = await engine.runEpisode({ id: task.id, task, seed: 1 });
      expect([task.id, episode.failure.message, episode.isCorrect]).toEqual([task.id, "", true]);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

describe.runIf(canHaveBrowsers)("pages of MiniWoB++", { timeout: 120_000 }, () => {
  let own: TestPool;
  beforeAll(async () => {
    own = await startTestPool();
  }, 120_000);
  afterAll(async () => await own[Symbol.asyncDispose]());

  async function rewardOf(task: string, letter: string): Promise<number> {
    const page = (Miniwob.in(miniwobFolder()) as Miniwob).task(task);
    const engine = new AgentExecutionEngine({
      rolloutClient: { chat: answering(() => letter) },
      agentFactory: () => new Clicker(),
      environmentFactory: () => new BrowserEnvironment({ pool: () => own.pool, task: page, maxSteps: 1, seed: 3 }),
    });
    const episode = await engine.runEpisode({ id: `${task}-${letter}`, task: { id: task, payload: {} }, seed: 1 });
    expect(episode.failure.message).toBe("");
    return episode.reward;
  }

  it.each(TASKS)("%s is solved by one of its first letters, and not by each", async (task) => {
    const rewards = [];
    for (const letter of "abcde") rewards.push(await rewardOf(task, letter));
    expect([Math.max(...rewards), Math.min(...rewards)]).toEqual([1, 0]);
  });
});

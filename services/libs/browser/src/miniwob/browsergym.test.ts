// SPDX-License-Identifier: Apache-2.0
// BrowserGym's own goals, trees, focus and rewards, recorded with it (tests/load/browser/record_browsergym.py): on the same seeds and
// by the same actions ours are the same.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveBrowsers, miniwobFolder, startTestPool, type TestPool } from "../../test-support/index.ts";
import { ACTION_SUBSETS } from "../actions/action.ts";
import { BrowserEnvironment } from "../browser-environment.ts";
import type { Observation } from "../episode/observation.ts";
import { Miniwob } from "./miniwob.ts";

interface Recorded {
  readonly task: string;
  readonly seed: number;
  readonly actions: readonly string[];
  readonly goal: string;
  readonly focused: string;
  readonly tree: string;
  readonly reward: number;
  /** Which of the actions it said were wrong. */
  readonly errors: readonly boolean[];
}

const GOLDEN = join(import.meta.dirname, "../../test-support/browsergym.golden.jsonl");
const recorded = readFileSync(GOLDEN, "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Recorded);
/** There BrowserGym ends the episode as soon as the address gets a "#". */
const ENDED_BY_HASH: ReadonlySet<string> = new Set(["search-engine"]);
const AT_ONCE = 4;

/** Without the boxes of lines, which BrowserGym shows where Chromium is newer than it. */
function withoutBoxes(tree: string): string {
  return tree
    .split("\n")
    .filter((line) => !/^\t*InlineTextBox /u.test(line))
    .join("\n");
}

describe.runIf(canHaveBrowsers)("beside BrowserGym", { timeout: 900_000 }, () => {
  let own: TestPool;
  let miniwob: Miniwob;
  beforeAll(async () => {
    own = await startTestPool();
    miniwob = Miniwob.in(miniwobFolder()) as Miniwob;
  });
  afterAll(async () => {
    await own[Symbol.asyncDispose]();
  });

  async function play({ task, seed, actions }: Recorded) {
    const env = new BrowserEnvironment({
      pool: () => own.pool,
      task: miniwob.task(task),
      subsets: ACTION_SUBSETS,
      severalActions: true,
      maxSteps: 100,
    });
    try {
      const first = (await env.reset({ seed })).observation as Observation;
      let reward = 0;
      for (const action of actions) {
        const step = await env.step(action);
        reward = step.reward ?? 0;
        if (step.terminated) break;
      }
      return { goal: first.goal, tree: first.axtree, focused: first.focusedElementBid, reward };
    } finally {
      await env.close();
    }
  }

  it("the same goals, trees and focus; the same actions on the same ids are paid the same", async () => {
    expect(recorded.length).toBeGreaterThan(100);
    const left = [...recorded];
    const [ours, theirs]: [unknown[], unknown[]] = [[], []];
    const player = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const { task, goal, focused, reward } = next;
        const seen = await play(next);
        ours.push({ task, ...seen, reward: ENDED_BY_HASH.has(task) ? 0 : seen.reward });
        theirs.push({ task, goal, tree: withoutBoxes(next.tree), focused, reward });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, player));
    expect(ours).toEqual(theirs);
    expect(recorded.filter(({ reward }) => reward === 1).length).toBeGreaterThan(60);
  });
});

// SPDX-License-Identifier: Apache-2.0
// Scripts that know the tasks of MiniWoB++ solve them through the environment, by the page's text alone; who acts at random does not.
import { createRng } from "@whetstone/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveBrowsers, miniwobFolder, startTestPool, type TestPool } from "../../test-support/index.ts";
import { ORACLES } from "../../test-support/oracles/index.ts";
import type { Oracle } from "../../test-support/oracles/oracle.ts";
import { bidOf } from "../../test-support/oracles/page-tree.ts";
import { playOracle } from "../../test-support/oracles/play-oracle.ts";
import { Miniwob } from "./miniwob.ts";

/** In the turn of its own it takes more (tests/ci/rotating.ts). */
const SEEDS = Number(process.env["WHETSTONE_MINIWOB_SEEDS"] ?? 1);
const AT_ONCE = 4;
const LEAST = 0.95;
const FEWEST_TASKS = 60;
const MINUTES = 60_000;

/** Clicks whatever has an id. */
function clicksAnything(seed: number): Oracle {
  const rng = createRng(seed);
  return function* (page) {
    for (let steps = 0; steps < 3; steps += 1) {
      const nodes = page.nodes.filter(({ bid }) => bid !== undefined);
      page = yield `click('${bidOf(rng.choice(nodes))}')`;
    }
  };
}

describe.runIf(canHaveBrowsers)("MiniWoB++", { timeout: 30 * MINUTES }, () => {
  let own: TestPool;
  let miniwob: Miniwob;
  beforeAll(async () => {
    own = await startTestPool();
    miniwob = Miniwob.in(miniwobFolder()) as Miniwob;
  });
  afterAll(async () => {
    await own[Symbol.asyncDispose]();
  });

  /** All of these tasks with all seeds, some at once. @returns the reward's mean, by task */
  async function playAll(tasks: readonly string[], oracleOf: (task: string, seed: number) => Oracle) {
    const rewards = new Map(tasks.map((task) => [task, 0]));
    const problems: string[] = [];
    const episodes = tasks.flatMap((task) => Array.from({ length: SEEDS }, (_, seed) => ({ task, seed })));
    const player = async (): Promise<void> => {
      for (let next = episodes.shift(); next !== undefined; next = episodes.shift()) {
        const { task, seed } = next;
        const played = await playOracle({ pool: own.pool, miniwob }, { task, seed, oracle: oracleOf(task, seed) });
        rewards.set(task, (rewards.get(task) ?? 0) + played.reward / SEEDS);
        if (played.reward !== 1)
          problems.push(`${task} ${seed}: ${played.goal} ${played.actions.join("; ")} ${played.problem}`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, player));
    return { rewards, problems };
  }

  it("has 130 tasks, at least 60 of which are solved by who knows them", async () => {
    expect(miniwob.tasks).toHaveLength(130);
    const { rewards, problems } = await playAll(Object.keys(ORACLES), (task) => ORACLES[task] as Oracle);
    const solved = [...rewards.values()].filter((mean) => mean >= LEAST);
    expect([solved.length >= FEWEST_TASKS, problems]).toEqual([true, expect.anything()]);
    expect(problems.length, problems.join("\n")).toBeLessThanOrEqual((1 - LEAST) * rewards.size * SEEDS);
  });

  it("is hardly ever solved by who clicks at random", async () => {
    const tasks = Object.keys(ORACLES).filter((_, i) => i % 4 === 0);
    const { rewards } = await playAll(tasks, (_, seed) => clicksAnything(seed));
    const mean = [...rewards.values()].reduce((sum, reward) => sum + reward, 0) / tasks.length;
    expect(mean).toBeLessThan(0.35);
  });
});

// SPDX-License-Identifier: Apache-2.0
// Each goal of each site in a browser: its own moves reach it, half of them and talk do not, and what else is changed costs it.
import { BrowserEnvironment } from "@whetstone/browser";
import { canHaveBrowsers, startTestPool, type TestPool } from "@whetstone/browser/test-support";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { walk } from "../test-support/walk.ts";
import { OwnSite } from "./own-site.ts";
import { OwnSiteTask } from "./own-site-task.ts";
import type { Move } from "./site.ts";
import { SITES } from "./sites.ts";

const SEEDS = Number(process.env["WHETSTONE_SITE_SEEDS"] ?? 1);
const CASES = Object.values(SITES).flatMap((kind) =>
  Object.keys(kind.goals).flatMap((goal) => Array.from({ length: SEEDS }, (_, seed) => ({ kind, goal, seed }))),
);
type Case = (typeof CASES)[number];

describe.runIf(canHaveBrowsers)("sites of our own", { timeout: 120_000 }, () => {
  let own: TestPool;
  beforeAll(async () => {
    own = await startTestPool();
  }, 120_000);
  afterAll(async () => await own[Symbol.asyncDispose]());

  /** @param moves  made of the goal's own */
  async function play({ kind, goal, seed }: Case, moves: (all: readonly Move[]) => readonly Move[]) {
    const env = new BrowserEnvironment({ pool: () => own.pool, task: new OwnSiteTask(kind, goal), maxSteps: 20 });
    try {
      const { observation } = await env.reset({ seed });
      using site = new OwnSite(kind, seed, goal);
      return await walk(env, moves(site.goal.moves), observation as object);
    } finally {
      await env.close();
    }
  }

  it.each(CASES)("are done by who knows the way: $kind.name, $goal, seed $seed", async (each) => {
    expect(await play(each, (all) => all)).toEqual({ reward: 1, ended: true, problem: "" });
  });

  it.each(CASES)("are not done by who stops before the end, or talks: $kind.name, $goal, seed $seed", async (each) => {
    const half = await play(each, (all) => all.slice(0, -1));
    expect([half.reward, half.problem]).toEqual([0, ""]);
    expect((await play(each, () => [{ say: "done, 12" }])).reward).toBe(0);
  });

  it("are not done when something else was changed, too", async () => {
    const more: Move[] = [
      { click: ["link", "gardening"] },
      { fill: ["Title", "More"] },
      { fill: ["Text", "and more"] },
    ];
    const each = { kind: SITES.forum, goal: "membership", seed: 0 };
    const moves: Move[] = [...more, { click: ["button", "Publish"] }];
    expect(await play(each, (all) => [...moves, ...all])).toEqual({ reward: 0, ended: false, problem: "" });
  });

  it("are each episode's own: what one changes no other sees", async () => {
    const each = { kind: SITES.shop, goal: "fillCart", seed: 3 };
    const [one, other] = await Promise.all([play(each, (all) => all), play(each, (all) => all)]);
    expect([one.reward, other.reward]).toEqual([1, 1]);
  });
});

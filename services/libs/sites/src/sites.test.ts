// SPDX-License-Identifier: Apache-2.0
// Each goal of each site in a browser: its own moves reach it, half of them and talk do not, and what else is changed costs it.
import { BrowserEnvironment } from "@whetstone/browser";
import { canHaveBrowsers, startTestPool, type TestPool } from "@whetstone/browser/test-support";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { walk } from "../test-support/walk.ts";
import { OwnSite } from "./own-site.ts";
import { OwnSiteTask, says } from "./own-site-task.ts";
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

describe("the sites' servers", () => {
  it("answer rude forms by a page that says why, and change nothing", async () => {
    using site = new OwnSite(SITES.shop, 1, "fillCart");
    const post = async (path: string, form: string, type = "application/x-www-form-urlencoded") => {
      const headers = { "content-type": type };
      return (await site.answer({ method: "POST", path, headers, body: Buffer.from(form) })).status;
    };
    expect(await post("/cart", "product=1&quantity=1e9")).toBe(400);
    expect(await post("/cart", "product=999&quantity=1")).toBe(404);
    expect(await post("/cart", "product=1' OR 1&quantity=1")).toBe(404);
    expect(await post("/checkout", "address=Home")).toBe(400);
    expect(await post("/checkout", "address=Moon")).toBe(400);
    expect(await post("/product/1/review", "stars=9&text=x")).toBe(400);
    expect(await post("/cart", "{}", "application/json")).toBe(404);
    expect(await post("/cart", "x".repeat(100_000))).toBe(413);
    expect(
      (await site.answer({ method: "GET", path: "/cart", headers: {}, body: undefined })).body.toString(),
    ).toContain("Your cart is empty");
  });

  it("show what people wrote as text", async () => {
    using site = new OwnSite(SITES.forum, 1, "publish");
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const body = Buffer.from("title=%3Cscript%3E&text=%22%26");
    expect((await site.answer({ method: "POST", path: "/g/baking/posts", headers, body })).status).toBe(303);
    const { body: page } = await site.answer({ method: "GET", path: "/g/baking", headers: {}, body: undefined });
    expect(page.toString()).toContain("&lt;script&gt;");
    expect(page.toString()).not.toContain("<script>");
  });

  it("have a goal for each of many seeds, and the same one again", () => {
    for (const kind of Object.values(SITES))
      for (let seed = 0; seed < 40; seed += 1) {
        using one = new OwnSite(kind, seed);
        using again = new OwnSite(kind, seed);
        expect(again.goal.text).toBe(one.goal.text);
        expect(one.isAsWanted).toBe(one.goal.change === undefined);
      }
  });
});

describe("an answer", () => {
  it("counts as whole words", () => {
    expect(["It costs $2.50.", "$2.50", "it is $2.50, sir"].map((text) => says(text, "$2.50"))).toEqual([
      true,
      true,
      true,
    ]);
    expect(["$12.50", "$2.505", "2.50"].map((text) => says(text, "$2.50"))).toEqual([false, false, false]);
    expect([says("There are 13", "3"), says("By Ada Finch.", "ada finch"), says("1.3", "3")]).toEqual([
      false,
      true,
      false,
    ]);
  });
});

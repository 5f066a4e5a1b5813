// SPDX-License-Identifier: Apache-2.0
// Browsers that end or hang, pages that hang or crash: the environment's failure, never a reward; the next episode gets a browser.
import { readdirSync, readFileSync } from "node:fs";
import type { EpisodeError } from "@whetstone/sdk";
import { waitFor } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { canHaveBrowsers, startTestPool } from "../../test-support/index.ts";
import { BrowserEnvironment } from "../browser-environment.ts";
import type { WebTask } from "../task/web-task.ts";
import type { BrowserPool } from "./browser-pool.ts";

const VIEWPORT = { width: 332, height: 214 };
const SETTINGS = { viewport: VIEWPORT, sites: [], reach: [] };
const PAGE = "data:text/html,<button onclick='while(true);'>hang</button>";
const ENVIRONMENT = { failureClass: "ENVIRONMENT" };

const task: WebTask = {
  viewport: VIEWPORT,
  setup: async (page) => {
    await page.goto(PAGE);
    return "go";
  },
  judge: async () => ({ reward: 1, done: false }),
};

const start = (pool: BrowserPool, stepMs = 60_000) =>
  new BrowserEnvironment({ pool: () => pool, task, times: { stepMs } });

/** Those of browsers below a process. */
function chromiums(pid = process.pid): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
    try {
      return readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1").split(" ").filter(Boolean).map(Number);
    } catch {
      return []; // It ended meanwhile.
    }
  });
  return children.flatMap((child) => [...(isBrowser(child) ? [child] : []), ...belowOf(child)]);
}

function belowOf(pid: number): number[] {
  try {
    return chromiums(pid);
  } catch {
    return [];
  }
}

/** The process of the browser itself, of all of its kind. */
function isBrowser(pid: number): boolean {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, "latin1");
    return /^[^\0]*chrom/u.test(command) && !command.includes("--type=");
  } catch {
    return false;
  }
}

describe.runIf(canHaveBrowsers)("faults of browsers", { timeout: 120_000 }, () => {
  it("one that is killed fails all of its episodes alike, and those that come get another", async () => {
    await using own = await startTestPool();
    const two = [start(own.pool), start(own.pool)];
    for (const env of two) await env.reset({ seed: 1 });
    const [pid] = chromiums();
    process.kill(pid as number, "SIGKILL");
    const steps = await Promise.allSettled(two.map((env) => env.step("noop(5000)")));
    expect(steps.map((step) => (step as PromiseRejectedResult).reason as EpisodeError)).toEqual([
      expect.objectContaining({ ...ENVIRONMENT, message: expect.stringContaining("it ended by itself") as string }),
      expect.objectContaining(ENVIRONMENT),
    ]);
    for (const env of two) await env.close();
    const next = start(own.pool);
    await next.reset({ seed: 1 });
    expect(await next.step("noop(1)")).toMatchObject({ reward: 1 });
    await next.close();
    expect(own.pool.browsers).toBe(1);
  });

  it("one that hangs is found out and killed; what is left of it is nothing", async () => {
    await using own = await startTestPool();
    const env = start(own.pool, 3_000);
    await env.reset({ seed: 1 });
    const [pid] = chromiums();
    process.kill(pid as number, "SIGSTOP");
    await expect(env.step("noop(1)")).rejects.toMatchObject({
      ...ENVIRONMENT,
      message: expect.stringContaining("did not answer, and was killed") as string,
    });
    await env.close();
    await waitFor(() => chromiums().length === 0, { what: "the browser to be gone", timeoutMs: 30_000 });
  });

  it("a page that hangs fails its own episode alone", async () => {
    await using own = await startTestPool();
    const [hangs, goesOn] = [start(own.pool, 4_000), start(own.pool)];
    await hangs.reset({ seed: 1 });
    await goesOn.reset({ seed: 1 });
    const bid = "3";
    await expect(hangs.step(`click('${bid}')`).then(() => hangs.step("noop(1)"))).rejects.toMatchObject({
      ...ENVIRONMENT,
      message: expect.stringContaining("the page did not answer") as string,
    });
    expect(await goesOn.step("noop(1)")).toMatchObject({ reward: 1 });
    await hangs.close();
    await goesOn.close();
  });

  it("a page that crashes fails its own episode", async () => {
    await using own = await startTestPool();
    await using lease = await own.pool.lease(SETTINGS);
    const page = await lease.context.newPage();
    await page.goto("chrome://crash").catch(() => undefined);
    const work = lease.run("to wait", () => new Promise<never>(() => undefined), { timeoutMs: 30_000 });
    await expect(work).rejects.toMatchObject(ENVIRONMENT);
  });

  it("an episode that keeps its pages too long loses them", async () => {
    await using own = await startTestPool({ leaseMs: 500 });
    await using lease = await own.pool.lease(SETTINGS);
    const work = lease.run("to wait", () => new Promise<never>(() => undefined), { timeoutMs: 30_000 });
    await expect(work).rejects.toMatchObject({ ...ENVIRONMENT, message: expect.stringContaining("500 ms") as string });
    await waitFor(() => own.pool.contexts === 0, { what: "the context to be closed", timeoutMs: 30_000 });
  });

  it("bounds contexts and browsers; who waits is served in turn, or leaves", async () => {
    await using own = await startTestPool({ maxBrowsers: 1, contextsPerBrowser: 1 });
    const first = await own.pool.lease(SETTINGS);
    const stop = new AbortController();
    const leaves = own.pool.lease(SETTINGS, stop.signal);
    const waits = own.pool.lease(SETTINGS);
    stop.abort(new Error("left"));
    await expect(leaves).rejects.toThrow("left");
    expect([own.pool.browsers, own.pool.contexts]).toEqual([1, 1]);
    await first[Symbol.asyncDispose]();
    await using served = await waits;
    expect([served.over.aborted, own.pool.contexts]).toEqual([false, 1]);
  });

  it("refuses who has waited long enough for room, and those after it have their turn", async () => {
    await using own = await startTestPool({ maxBrowsers: 1, contextsPerBrowser: 1, waitMs: 300 });
    const first = await own.pool.lease(SETTINGS);
    await expect(own.pool.lease(SETTINGS)).rejects.toMatchObject({
      ...{ code: "RESOURCE_EXHAUSTED", retry: "later", message: "all 1 pages are in use" },
    });
    const waits = own.pool.lease(SETTINGS);
    await first[Symbol.asyncDispose]();
    await using served = await waits;
    expect([served.over.aborted, own.pool.contexts]).toEqual([false, 1]);
  });

  it("refuses likewise while the only browser may have no more episodes and has not ended", async () => {
    await using own = await startTestPool({ maxBrowsers: 1, recycleAfter: 1, waitMs: 300 });
    const last = await own.pool.lease(SETTINGS);
    await expect(own.pool.lease(SETTINGS)).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await last[Symbol.asyncDispose]();
    await waitFor(() => own.pool.browsers === 0, { what: "the first browser to be gone", timeoutMs: 30_000 });
    await using next = await own.pool.lease(SETTINGS);
    expect(next.over.aborted).toBe(false);
  });

  it("one that has had enough episodes is replaced, once its last has ended", async () => {
    await using own = await startTestPool({ recycleAfter: 2, maxBrowsers: 2 });
    const [one, two, three] = [
      await own.pool.lease(SETTINGS),
      await own.pool.lease(SETTINGS),
      await own.pool.lease(SETTINGS),
    ];
    expect(own.pool.browsers).toBe(2);
    await one[Symbol.asyncDispose]();
    expect(two.over.aborted).toBe(false);
    await two[Symbol.asyncDispose]();
    await waitFor(() => own.pool.browsers === 1, { what: "the first browser to be gone", timeoutMs: 30_000 });
    expect(three.over.aborted).toBe(false);
    await three[Symbol.asyncDispose]();
  });

  it("where it cannot be started the episode is told why, and the next one tries again", async () => {
    let executable = "/nowhere/chromium";
    await using own = await startTestPool({
      chromium: async () => ({ executable, memoryMiB: 4096, startTimeoutMs: 20_000, backend: undefined }),
    });
    await expect(own.pool.lease(SETTINGS)).rejects.toMatchObject({
      ...ENVIRONMENT,
      message: expect.stringContaining("to start it") as string,
    });
    executable = "/nowhere/else";
    await expect(own.pool.lease(SETTINGS)).rejects.toMatchObject(ENVIRONMENT);
    expect(own.pool.browsers).toBe(0);
  });
});

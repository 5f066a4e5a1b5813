// SPDX-License-Identifier: Apache-2.0
import { imageFault } from "@whetstone/sdk";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveBrowsers, miniwobFolder, startTestPool, type TestPool } from "../test-support/index.ts";
import { BrowserEnvironment } from "./browser-environment.ts";
import type { Observation } from "./episode/observation.ts";
import { Miniwob } from "./miniwob/miniwob.ts";
import type { WebTask } from "./task/web-task.ts";

describe.runIf(canHaveBrowsers)("the seed of a page", { timeout: 120_000 }, () => {
  let own: TestPool;
  beforeAll(async () => {
    own = await startTestPool();
  }, 120_000);
  afterAll(async () => await own[Symbol.asyncDispose]());

  async function treeAt(episode: number, seed?: number): Promise<string> {
    const task = (Miniwob.in(miniwobFolder()) as Miniwob).task("click-button");
    const env = new BrowserEnvironment({ pool: () => own.pool, task, seed });
    try {
      return ((await env.reset({ seed: episode })).observation as Observation).axtree;
    } finally {
      await env.close();
    }
  }

  it("is the task's where it has one, so that a group's episodes have one page, else the episode's", async () => {
    expect(await treeAt(1, 7)).toBe(await treeAt(2, 7));
    expect(await treeAt(7)).toBe(await treeAt(2, 7));
    expect(await treeAt(1)).not.toBe(await treeAt(2));
  });
});

describe.runIf(canHaveBrowsers)("the tabs", { timeout: 120_000 }, () => {
  it("have their titles, and the one that is looked at is active", async () => {
    await using own = await startTestPool();
    const task = (Miniwob.in(miniwobFolder()) as Miniwob).task("click-test-2");
    const env = new BrowserEnvironment({ pool: () => own.pool, task });
    const tabsOf = (observation: unknown) =>
      (observation as Observation).tabs.map(({ title, isActive }) => [title, isActive]);
    expect(tabsOf((await env.reset({ seed: 1 })).observation)).toEqual([["Click Test Task", true]]);
    await env.close();
  });
});

describe.runIf(canHaveBrowsers)("an element that an action names", { timeout: 120_000 }, () => {
  const BUTTON = '<button onclick="top.document.title = `pressed`">go</button>';
  let own: TestPool;
  beforeAll(async () => {
    own = await startTestPool();
  }, 120_000);
  afterAll(async () => await own[Symbol.asyncDispose]());

  interface Click {
    /** Default: the button's of the first look. */
    readonly bid?: string;
    /** What the page does between the look and the click. */
    readonly meanwhile?: string;
  }

  /** The title of the page after a click, and what the agent reads of it. */
  async function click(body: string, { bid, meanwhile = "" }: Click = {}): Promise<[string | undefined, string]> {
    let page: Page | undefined;
    const headers = { "content-type": "text/html" };
    const answer = () => Promise.resolve({ status: 200, headers, body: Buffer.from(body) });
    const task: WebTask = {
      viewport: { width: 400, height: 300 },
      sites: [{ origin: "http://buttons.test", answer }],
      setup: async (first) => {
        page = first;
        await page.goto("http://buttons.test/");
        return "press the button";
      },
      judge: () => Promise.resolve({ reward: 0, done: false, info: {} }),
    };
    const env = new BrowserEnvironment({ pool: () => own.pool, task, times: { elementMs: 1_000 } });
    try {
      const first = (await env.reset({ seed: 1 })).observation as Observation;
      await page?.evaluate(meanwhile);
      const shown = /\[(\w+)\] button/u.exec(first.axtree)?.[1];
      const { observation } = await env.step(`click('${bid ?? shown}')`);
      const { lastActionError, tabs } = observation as Observation;
      return [tabs[0]?.title, lastActionError];
    } finally {
      await env.close();
    }
  }

  it("is used where it is", async () => {
    expect(await click(BUTTON)).toEqual(["pressed", ""]);
    expect(await click(`<iframe srcdoc='${BUTTON}'></iframe>`)).toEqual(["pressed", ""]);
  });

  it("is told where it never was, or is no longer", async () => {
    const missing = (bid: string) => ["", `ValueError: Could not find element with bid "${bid}"`];
    expect(await click(BUTTON, { bid: "999" })).toEqual(missing("999"));
    expect(await click(BUTTON, { bid: "a1" })).toEqual(missing("a1"));
    const [, gone] = await click(BUTTON, { meanwhile: "document.querySelector('button').remove()" });
    expect(gone).toMatch(/^ValueError: Could not find element with bid "\d+"$/u);
  });

  it("is waited for where it is there and cannot be used", async () => {
    const [, covered] = await click(`${BUTTON}<div style="position: fixed; inset: 0"></div>`);
    expect(covered).toMatch(/^TimeoutError: locator.click: Timeout 1000ms exceeded/u);
  });
});

describe.runIf(canHaveBrowsers)("a picture of the page", { timeout: 120_000 }, () => {
  let own: TestPool;
  beforeAll(async () => {
    own = await startTestPool();
  }, 120_000);
  afterAll(async () => await own[Symbol.asyncDispose]());

  async function firstLook(picture?: { readonly marks: boolean }) {
    const task = (Miniwob.in(miniwobFolder()) as Miniwob).task("click-test-2");
    const env = new BrowserEnvironment({ pool: () => own.pool, task, seed: 7, picture });
    try {
      const first = await env.reset({ seed: 1 });
      const next = await env.step("noop(1)");
      return { images: first.images ?? [], next: next.images ?? [], seen: next.observation as Observation };
    } finally {
      await env.close();
    }
  }

  /** Of a PNG's header. */
  const sizeOf = (data: Uint8Array) => [Buffer.from(data).readUInt32BE(16), Buffer.from(data).readUInt32BE(20)];

  it("is taken when it is asked for, as large as coordinates of actions say", async () => {
    expect((await firstLook()).images).toEqual([]);
    const { images, next } = await firstLook({ marks: false });
    expect(images.map(imageFault)).toEqual([undefined]);
    expect(images.map(({ data }) => sizeOf(data))).toEqual([[498, 321]]);
    expect(next).toHaveLength(1);
  });

  it("has marks drawn over it, of which the page keeps nothing", async () => {
    const [plain, marked] = [await firstLook({ marks: false }), await firstLook({ marks: true })];
    expect(marked.images.map(imageFault)).toEqual([undefined]);
    expect(Buffer.compare(marked.images[0]?.data as Uint8Array, plain.images[0]?.data as Uint8Array)).not.toBe(0);
    expect(marked.seen).toEqual(plain.seen);
  });
});

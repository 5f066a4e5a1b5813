// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveBrowsers, miniwobFolder, startTestPool, type TestPool } from "../test-support/index.ts";
import { BrowserEnvironment } from "./browser-environment.ts";
import type { Observation } from "./episode/observation.ts";
import { Miniwob } from "./miniwob/miniwob.ts";

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

// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { WorkQueue } from "./work-queue.ts";

let queue: WorkQueue;
beforeEach(() => {
  vi.useFakeTimers();
  queue = new WorkQueue();
});
afterEach(() => {
  queue.close();
  vi.useRealTimers();
});

/** What a worker would get now; undefined when it would have to wait. */
async function takeNow(): Promise<string | undefined> {
  if (queue.depth === 0) return undefined;
  return queue.take();
}

describe("work queue", () => {
  it("Q1, Q3: a key is never worked on twice at once, and comes again when it was added meanwhile", async () => {
    queue.add("a");
    expect(await queue.take()).toBe("a");
    queue.add("a");
    queue.add("a");
    expect(await takeNow()).toBeUndefined();
    queue.done("a");
    expect(await takeNow()).toBe("a");
    queue.done("a");
    expect(await takeNow()).toBeUndefined();
  });

  it("Q2: what waits already is one piece of work", async () => {
    for (let i = 0; i < 100; i++) queue.add("a");
    expect(queue.depth).toBe(1);
  });

  it("Q4: first come, first served; low priority last, unless asked for again", async () => {
    queue.add("old", "low");
    queue.add("raised", "low");
    queue.add("a");
    queue.add("b");
    queue.add("raised");
    const order = [await queue.take(), await queue.take(), await queue.take(), await queue.take()];
    expect(order).toEqual(["a", "b", "raised", "old"]);
  });

  it("Q5: the shortest of several waits counts", async () => {
    queue.addAfter("a", 5000);
    queue.addAfter("a", 1000);
    queue.addAfter("a", 3000);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(999);
    expect(queue.depth).toBe(0);
    vi.advanceTimersByTime(1);
    expect(await takeNow()).toBe("a");
    queue.done("a");
    vi.advanceTimersByTime(10_000);
    expect(queue.depth).toBe(0);
  });

  it("hands a key to a worker that waits", async () => {
    const taken = queue.take();
    queue.add("a");
    queue.add("a");
    expect(await taken).toBe("a");
    expect(queue.depth).toBe(0);
    queue.done("a");
    expect(await takeNow()).toBe("a");
  });

  it("Q6: after close nobody waits and nothing is handed out", async () => {
    const taken = queue.take();
    queue.addAfter("later", 10);
    queue.close();
    expect(await taken).toBeUndefined();
    queue.add("a");
    vi.advanceTimersByTime(100);
    expect(await queue.take()).toBeUndefined();
  });
});

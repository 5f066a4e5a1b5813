// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { LoopShare } from "./loop-share.ts";

const immediate = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function busyMs(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe("turns", () => {
  it("go on at once while there is time", () => {
    const loopShare = new LoopShare();
    expect([loopShare.next(), loopShare.start(), loopShare.next()]).toEqual([undefined, undefined, undefined]);
  });

  it("let those that play go before those that begin, each in order", async () => {
    const loopShare = new LoopShare();
    while (loopShare.next() === undefined);
    const order: string[] = [];
    const note = (what: string, turn: Promise<void> | undefined) => turn?.then(() => order.push(what));
    await Promise.all([
      note("start 1", loopShare.start()),
      note("go 1", loopShare.next()),
      note("start 2", loopShare.start()),
      note("go 2", loopShare.next()),
    ]);
    expect(order).toEqual(["go 1", "go 2", "start 1", "start 2"]);
  });

  it("give the event loop its share: slow work makes the slices smaller", async () => {
    const loopShare = new LoopShare();
    let most = 0;
    let left = 400;
    const work = async (): Promise<void> => {
      await loopShare.next();
      busyMs(1);
      left -= 1;
    };
    const all = Promise.all(Array.from({ length: left }, work));
    let before = left;
    for (let round = 0; left > 0; round += 1) {
      await immediate();
      if (round > 3) most = Math.max(most, before - left); // The first rounds learn how slow it is.
      before = left;
    }
    await all;
    expect(most).toBeLessThan(33); // Of 1 ms each; all that are left without slices.
  });

  it("lose nobody", async () => {
    const loopShare = new LoopShare();
    let done = 0;
    await Promise.all(
      Array.from({ length: 5000 }, async (_, i) => {
        await (i % 2 === 0 ? loopShare.start() : loopShare.next());
        done += 1;
      }),
    );
    expect(done).toBe(5000);
  });
});

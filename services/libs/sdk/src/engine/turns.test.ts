// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { Turns } from "./turns.ts";

const immediate = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function busyMs(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe("turns", () => {
  it("go on at once while there is time", () => {
    const turns = new Turns();
    expect([turns.next(), turns.start(), turns.next()]).toEqual([undefined, undefined, undefined]);
  });

  it("let those that play go before those that begin, each in order", async () => {
    const turns = new Turns();
    while (turns.next() === undefined);
    const order: string[] = [];
    const note = (what: string, turn: Promise<void> | undefined) => turn?.then(() => order.push(what));
    await Promise.all([
      note("start 1", turns.start()),
      note("go 1", turns.next()),
      note("start 2", turns.start()),
      note("go 2", turns.next()),
    ]);
    expect(order).toEqual(["go 1", "go 2", "start 1", "start 2"]);
  });

  it("give the event loop its share: slow work makes the slices smaller", async () => {
    const turns = new Turns();
    let most = 0;
    let left = 400;
    const work = async (): Promise<void> => {
      await turns.next();
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
    const turns = new Turns();
    let done = 0;
    await Promise.all(
      Array.from({ length: 5000 }, async (_, i) => {
        await (i % 2 === 0 ? turns.start() : turns.next());
        done += 1;
      }),
    );
    expect(done).toBe(5000);
  });
});

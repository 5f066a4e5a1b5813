// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { shortPass } from "./short-pass.ts";

const numbers = Array.from({ length: 100 }, (_, i) => i);

describe("shortPass", () => {
  it("does all of it where there is time, in order and no more at once than it may", async () => {
    const begun: number[] = [];
    let [now, most] = [0, 0];
    const left = await shortPass(numbers, { atOnce: 4, ms: 60_000 }, async (item) => {
      begun.push(item);
      most = Math.max(most, ++now);
      await Promise.resolve();
      now--;
    });
    expect([left, most, begun]).toEqual([0, 4, numbers]);
  });

  it("begins nothing when the time is over, and says how many are left", async () => {
    let done = 0;
    const work = async (): Promise<void> => {
      await delay(20);
      done++;
    };
    const left = await shortPass(numbers, { atOnce: 2, ms: 50 }, work);
    expect(done).toBeGreaterThanOrEqual(2);
    expect(done).toBeLessThan(20);
    expect(left).toBe(numbers.length - done);
  });

  it("gets somewhere without any time", async () => {
    expect(await shortPass(numbers, { atOnce: 3, ms: 0 }, () => Promise.resolve())).toBe(97);
    expect(await shortPass([], { atOnce: 3, ms: 0 }, () => Promise.resolve())).toBe(0);
  });

  it("fails as its work does", async () => {
    const broken = shortPass(numbers, { atOnce: 3, ms: 50 }, () => Promise.reject(new Error("no")));
    await expect(broken).rejects.toThrow("no");
  });
});

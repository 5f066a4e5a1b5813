// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Gate, sleep, WhetstoneError } from "./index.ts";

describe("Gate", () => {
  it("never exceeds its limit, runs everything once and leaves no slot behind, in any order of events (G1-G4)", async () => {
    const limits = fc.integer({ min: 1, max: 4 });
    const jobs = fc.array(fc.record({ fails: fc.boolean(), aborts: fc.boolean() }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), limits, jobs, async (scheduler, limit, plan) => {
        const gate = new Gate(limit);
        let active = 0;
        let peak = 0;
        let ran = 0;
        const work = plan.map(async ({ fails, aborts }, i) => {
          const controller = new AbortController();
          if (aborts) void scheduler.schedule(Promise.resolve(), `abort ${i}`).then(() => controller.abort());
          const body = async (): Promise<void> => {
            ran += 1;
            peak = Math.max(peak, (active += 1));
            await scheduler.schedule(Promise.resolve(), `work ${i}`);
            active -= 1;
            if (fails) throw new Error("job failed");
          };
          return await gate.run(body, controller.signal).then(
            () => "done",
            (error: unknown) => (error as Error).message,
          );
        });
        await scheduler.waitFor(Promise.all(work));
        const results = await Promise.all(work);
        const neverRan = results.filter((result) => result !== "done" && result !== "job failed").length;
        expect(peak).toBeLessThanOrEqual(limit);
        expect(ran + neverRan).toBe(plan.length);
        expect([gate.active, gate.queued]).toEqual([0, 0]);
      }),
      { numRuns: 200 },
    );
  });

  it("serves in order of arrival (G2)", async () => {
    const gate = new Gate(1);
    const order: number[] = [];
    const jobs = [0, 1, 2, 3].map((i) =>
      gate.run(async () => {
        order.push(i);
        await sleep(1);
      }),
    );
    await Promise.all(jobs);
    expect(order).toEqual([0, 1, 2, 3]);
  });

  it("refuses beyond its queue (G5) and gives a slot back once", async () => {
    const gate = new Gate(1, { maxQueued: 1 });
    const slot = await gate.acquire();
    const second = gate.acquire();
    await expect(gate.acquire()).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED", retry: "later" });
    slot[Symbol.dispose]();
    slot[Symbol.dispose]();
    const held = await second;
    expect(gate.active).toBe(1);
    held[Symbol.dispose]();
    expect(gate.active).toBe(0);
  });

  it("takes no slot for one who has already left", async () => {
    const gate = new Gate(1);
    const reason = new WhetstoneError("CANCELLED", "gone");
    await expect(gate.run(() => 1, AbortSignal.abort(reason))).rejects.toBe(reason);
    expect(gate.active).toBe(0);
  });
});

describe("many waiters under one signal", () => {
  it("add one listener to it, not one each", async () => {
    const controller = new AbortController();
    let listeners = 0;
    const add = controller.signal.addEventListener.bind(controller.signal);
    controller.signal.addEventListener = (...given: Parameters<typeof add>) => {
      listeners++;
      add(...given);
    };
    const gate = new Gate(1);
    const held = await gate.acquire();
    const waiting = Array.from({ length: 1_000 }, () => gate.acquire(controller.signal));
    const sleeping = Array.from({ length: 1_000 }, () => sleep(60_000, controller.signal));
    expect([listeners, gate.queued]).toEqual([1, 1_000]);
    controller.abort();
    const ends = await Promise.allSettled([...waiting, ...sleeping]);
    expect(ends.every(({ status }) => status === "rejected")).toBe(true);
    expect(gate.queued).toBe(0);
    held[Symbol.dispose]();
  });
});

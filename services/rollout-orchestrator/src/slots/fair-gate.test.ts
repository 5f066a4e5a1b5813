// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FairGate } from "./fair-gate.ts";

interface SimulatedJob {
  readonly weight: number;
  /** Mean time a slot is held, milliseconds; each is held for 0.5 to 1.5 times as long. */
  readonly meanMs: number;
  /** Tasks that wait at any time. */
  readonly prefetch: number;
}

/** Jobs that always want more, on simulated time. */
class Simulation {
  readonly gate: FairGate;
  readonly jobs: readonly SimulatedJob[];
  /** Slot milliseconds of each job, and the longest wait of one of its tasks, milliseconds. */
  readonly had: { ms: number; longestWait: number }[];
  #now = 0;
  #random = 1;
  readonly #ends: { at: number; end: () => void }[] = [];

  constructor(limit: number, jobs: readonly SimulatedJob[]) {
    this.gate = new FairGate(limit, { now: () => this.#now });
    this.jobs = jobs;
    this.had = jobs.map(() => ({ ms: 0, longestWait: 0 }));
    jobs.forEach(({ weight, prefetch }, j) => {
      this.gate.setWeight(`job-${j}`, weight);
      for (let i = 0; i < prefetch; i += 1) void this.#task(j);
    });
  }

  async run(untilMs: number): Promise<void> {
    for (;;) {
      // Continuations of grants are microtasks: a macrotask lets them all run.
      await new Promise((resolve) => setImmediate(resolve));
      if (this.gate.active > this.gate.limit) throw new Error(`${this.gate.active} of ${this.gate.limit}`);
      this.#ends.sort((a, b) => a.at - b.at);
      const next = this.#ends[0];
      if (next === undefined || next.at > untilMs) return;
      this.#ends.shift();
      this.#now = next.at;
      next.end();
    }
  }

  async #task(j: number): Promise<void> {
    const asked = this.#now;
    const slot = await this.gate.acquire(`job-${j}`);
    const had = this.had[j] as (typeof this.had)[number];
    const since = this.#now;
    had.longestWait = Math.max(had.longestWait, since - asked);
    void this.#task(j);
    const heldMs = (this.jobs[j] as SimulatedJob).meanMs * (0.5 + this.#nextRandom());
    const end = (): void => {
      had.ms += this.#now - since;
      slot[Symbol.dispose]();
    };
    this.#ends.push({ at: since + heldMs, end });
  }

  #nextRandom(): number {
    this.#random = (this.#random * 48_271) % 2_147_483_647;
    return this.#random / 2_147_483_647;
  }
}

const RUN_MS = 40_000;
const LONGEST_MS = 750;

const job = fc.record({
  weight: fc.integer({ min: 1, max: 10 }),
  meanMs: fc.integer({ min: 50, max: 500 }),
  prefetch: fc.integer({ min: 4, max: 16 }),
});

function turns(job: string, count: number): string[] {
  return Array<string>(count).fill(job);
}

/**
 * One slot. First the turns of `before` are played, all waiting at once, then those of `then` join what is left; in what
 * order the latter and theirs were played.
 */
async function playInOrder(
  lengths: Record<string, number | (() => number)>,
  before: string[],
  then: string[],
): Promise<string[]> {
  let now = 0;
  const gate = new FairGate(1, { now: () => now });
  const order: string[] = [];
  const play = async (name: string): Promise<void> => {
    using _slot = await gate.acquire(name);
    order.push(name);
    const length = lengths[name] ?? 0;
    now += typeof length === "number" ? length : length();
  };
  const first = Promise.all(before.map(play));
  for (let i = 0; order.length < before.length - 20; i += 1) await Promise.resolve();
  order.length = 0;
  await Promise.all([first, ...then.map(play)]);
  return order;
}

describe("FairGate", () => {
  it("shares slot time by weight, whatever the tasks take, and lets nobody wait for ever", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 16 }),
        fc.array(job, { minLength: 2, maxLength: 4 }),
        async (limit, jobs) => {
          const simulation = new Simulation(limit, jobs);
          await simulation.run(RUN_MS);
          const weights = jobs.reduce((sum, { weight }) => sum + weight, 0);
          const total = simulation.had.reduce((sum, { ms }) => sum + ms, 0);
          simulation.had.forEach(({ ms, longestWait }, j) => {
            const { weight, prefetch, meanMs } = jobs[j] as SimulatedJob;
            expect(Math.abs(ms / total - weight / weights)).toBeLessThan(0.05);
            // Those before it in its job's queue, through its job's share of the slots; twice that, and what is held now.
            const fairWait = ((prefetch + 1) * 1.5 * meanMs * (weights / weight)) / limit;
            expect(longestWait).toBeLessThan(2 * fairWait + 4 * LONGEST_MS);
          });
          expect(total).toBeGreaterThan(0.95 * limit * RUN_MS);
        },
      ),
      { numRuns: 50 },
    );
  });

  it("gives a lone job everything, for nothing, and the second its share of what becomes free", async () => {
    let now = 0;
    const gate = new FairGate(8, { now: () => now });
    gate.setWeight("b", 3);
    const first = await Promise.all(Array.from({ length: 8 }, () => gate.acquire("a")));
    now = 1_000_000;
    for (let i = 0; i < 8; i += 1) {
      void gate.acquire("a");
      void gate.acquire("b");
    }
    expect([gate.activeOf("a"), gate.activeOf("b"), gate.queued]).toEqual([8, 0, 16]);
    for (const slot of first) slot[Symbol.dispose]();
    expect([gate.activeOf("a"), gate.activeOf("b")]).toEqual([2, 6]);
  });

  it("gives no credit for having been away", async () => {
    const order = await playInOrder({ a: 10, b: 10, c: 10 }, [...turns("a", 50), ...turns("c", 50)], turns("b", 30));
    // Had it the credit of a hundred turns, it would have its thirty at once.
    expect(order.slice(0, 9).filter((name) => name === "b").length).toBeLessThanOrEqual(4);
  });

  it("charges what a slot was held for, not what was expected", async () => {
    let aTurns = 0;
    const aMs = (): number => ((aTurns += 1) === 1 ? 10 : 1000);
    const order = await playInOrder({ a: aMs, b: 10 }, [], [...turns("a", 4), ...turns("b", 200)]);
    // Of a's first two, the second took a hundred times as long as the first.
    const second = order.indexOf("a", order.indexOf("a") + 1);
    expect(order.indexOf("a", second + 1) - second).toBeGreaterThan(80);
  });

  it("lowers the limit without taking slots back and raises it at once", async () => {
    const gate = new FairGate(3, { now: () => 0 });
    const slots = await Promise.all([gate.acquire("a"), gate.acquire("a"), gate.acquire("a")]);
    gate.limit = 1;
    const waiting = gate.acquire("a");
    slots[0]?.[Symbol.dispose]();
    slots[1]?.[Symbol.dispose]();
    expect([gate.active, gate.queued]).toEqual([1, 1]);
    gate.limit = 2;
    (await waiting)[Symbol.dispose]();
    slots[1]?.[Symbol.dispose](); // Twice is harmless.
    expect(gate.active).toBe(1);
  });

  it("an aborted waiter leaves the queue and takes no slot", async () => {
    const gate = new FairGate(1, { now: () => 0 });
    const held = await gate.acquire("a");
    const leaving = new AbortController();
    const left = gate.acquire("a", leaving.signal);
    const stays = gate.acquire("a");
    leaving.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    held[Symbol.dispose]();
    (await stays)[Symbol.dispose]();
    expect([gate.active, gate.queued]).toEqual([0, 0]);
    await expect(gate.acquire("a", leaving.signal)).rejects.toThrow("gone");
  });

  it("refuses more waiters than a job may have, limits and weights that are none", async () => {
    const gate = new FairGate(1, { now: () => 0, maxQueuedPerJob: 1 });
    await gate.acquire("a");
    void gate.acquire("a");
    await expect(gate.acquire("a")).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    void gate.acquire("b");
    expect(gate.queued).toBe(2);
    expect(() => (gate.limit = -1)).toThrow("at least 0");
    expect(() => gate.setWeight("a", 0)).toThrow("above 0");
  });
});

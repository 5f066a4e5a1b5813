// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type Need, scalePool } from "./scaler.ts";

const RULE = { enabled: true, min: 0, max: 8, cooldownSeconds: 60 };

/** Slots wanted at times in seconds; what the pool has after each. */
function run(points: readonly (readonly [second: number, slots: number])[], rule = RULE, from = 0): number[] {
  let replicas = from;
  let history: readonly Need[] = [];
  return points.map(([second, wantedSlots]) => {
    const nowMs = second * 1000;
    ({ replicas, history } = scalePool(rule, {
      wantedSlots,
      slotsPerWorker: 10,
      replicas,
      history,
      sinceMs: 0,
      nowMs,
    }));
    return replicas;
  });
}

describe("a pool that scales by itself", () => {
  it("grows at once, from zero too, up to its bound", () => {
    expect(
      run([
        [100, 0],
        [101, 1],
        [102, 35],
        [103, 1_000],
      ]),
    ).toEqual([0, 1, 4, 8]);
  });

  it("shrinks, to zero too, when less was needed for the whole cool-down", () => {
    expect(
      run([
        [100, 40],
        [110, 20],
        [159, 0],
        [161, 0],
        [169, 0],
        [171, 0],
        [220, 0],
      ]),
    ).toEqual([4, 4, 4, 2, 2, 0, 0]);
  });

  it("does not follow the pauses between the steps of a job", () => {
    const steps = Array.from({ length: 40 }, (_, i) => [100 + i * 15, i % 3 === 0 ? 40 : 0] as const);
    expect(new Set(run(steps))).toEqual(new Set([4]));
  });

  it("keeps its least", () => {
    expect(
      run(
        [
          [100, 0],
          [300, 0],
        ],
        { ...RULE, min: 2 },
      ),
    ).toEqual([2, 2]);
  });

  it("takes nothing away before it has looked on for a cool-down: a new leader knows of no need", () => {
    expect(
      run(
        [
          [1, 0],
          [59, 0],
          [61, 0],
        ],
        RULE,
        5,
      ),
    ).toEqual([5, 5, 0]);
  });

  it("remembers little", () => {
    let history: readonly Need[] = [];
    for (let second = 0; second < 1_000; second += 1) {
      const facts = { wantedSlots: (second * 37) % 400, slotsPerWorker: 10, replicas: 0, sinceMs: 0 };
      ({ history } = scalePool(RULE, { ...facts, history, nowMs: second * 1000 }));
    }
    expect(history.length).toBeLessThanOrEqual(40);
  });
});

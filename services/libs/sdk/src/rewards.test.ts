// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import {
  computeMcReturns,
  computePassAtK,
  computeTrajectoryReward,
  createStep,
  createTrajectory,
  passAtK,
} from "./index.ts";

describe("rewards", () => {
  const steps = [0.5, 0, 1].map((reward) => createStep({ reward }));

  it("sums the steps", () => {
    expect(computeTrajectoryReward(createTrajectory({ steps }))).toBe(1.5);
  });

  it("discounts backward", () => {
    computeMcReturns(steps, 0.5);
    expect(steps.map(({ mcReturn }) => mcReturn)).toEqual([0.75, 0.5, 1]);
  });
});

describe("pass@k", () => {
  it("is the chance that k draws without replacement hold a correct one", () => {
    expect(passAtK({ attempts: 10, correct: 3 }, 1)).toBeCloseTo(0.3, 12);
    expect(passAtK({ attempts: 4, correct: 1 }, 2)).toBeCloseTo(0.5, 12);
    expect(passAtK({ attempts: 5, correct: 2 }, 3)).toBeCloseTo(0.9, 12);
    expect(passAtK({ attempts: 5, correct: 3 }, 3)).toBe(1);
    expect(passAtK({ attempts: 200, correct: 0 }, 100)).toBe(0);
  });

  it("averages over the tasks with enough attempts", () => {
    const tasks = [
      { attempts: 2, correct: 1 },
      { attempts: 2, correct: 0 },
      { attempts: 1, correct: 1 },
    ];
    expect(computePassAtK(tasks, 2)).toBe(0.5);
  });

  it("refuses k beyond the attempts", () => {
    expect(() => passAtK({ attempts: 2, correct: 1 }, 3)).toThrow(/pass@3/);
  });
});

// SPDX-License-Identifier: Apache-2.0
import { createRng, passAtK, type Rng } from "@whetstone/core";
import { describe, expect, it } from "vitest";

import { type Estimate, meanDifference, meanOverTasks, type Part, shareOverTasks, wilson } from "./intervals.ts";
import { scoreTasks } from "./score.ts";
import { t95 } from "./student-t.ts";

const rounded = ({ low, high }: Estimate): (string | undefined)[] => [low?.toFixed(4), high?.toFixed(4)];

describe("known values", () => {
  it.each([
    [1, 12.7062],
    [2, 4.3027],
    [3, 3.1824],
    [5, 2.5706],
    [10, 2.2281],
    [30, 2.0423],
    [1e6, 1.96],
  ])("Student's t of %i degrees of freedom", (degrees, expected) => {
    expect(Math.abs(t95(degrees) / expected - 1)).toBeLessThan(0.005);
  });

  it("Wilson's interval of 0, 5 and 10 of 10", () => {
    expect(rounded(wilson(0, 10))).toEqual(["0.0000", "0.2775"]);
    expect(rounded(wilson(0.5, 10))).toEqual(["0.2366", "0.7634"]);
    expect(rounded(wilson(1, 10))).toEqual(["0.7225", "1.0000"]);
  });

  it("one draw a task is Wilson's own interval", () => {
    const parts = [1, 0, 0, 1, 1].map((sum) => ({ sum, draws: 1 }));
    expect(shareOverTasks(parts)).toEqual(wilson(0.6, 5));
  });

  it("draws of a task that are all alike say no more than one", () => {
    const parts = Array.from({ length: 40 }, (_, task) => ({ sum: task % 2 === 0 ? 8 : 0, draws: 8 }));
    const [alike, single] = [shareOverTasks(parts), wilson(0.5, 40)];
    expect(alike.low).toBeLessThan(single.low as number);
    expect(alike.low).toBeCloseTo(single.low as number, 1);
    expect(shareOverTasks(parts.map(() => ({ sum: 8, draws: 8 })))).toEqual(wilson(1, 40));
  });

  it("nothing scored has no estimate", () => {
    const nothing = { value: null, low: null, high: null };
    expect([shareOverTasks([]), meanOverTasks([]), meanDifference([])]).toEqual([nothing, nothing, nothing]);
    const unsure = { value: 1.5, low: null, high: null };
    expect(meanOverTasks([{ sum: 3, draws: 2 }])).toEqual(unsure);
    expect(meanOverTasks(Array(9).fill({ sum: 3, draws: 2 }))).toEqual(unsure);
  });

  it("not one difference in 36 tasks still leaves room for one in ten", () => {
    expect(meanDifference(Array<number>(36).fill(0)).high).toBeCloseTo(1 - 0.025 ** (1 / 36));
  });
});

// Tasks of random difficulty, again and again: the intervals must hold the truth about as often as they say. 95 % of 2,000 has a
// standard deviation of 0.5 %; a share of 93 % would be four of them below.
describe("coverage by simulation", () => {
  const RUNS = 2_000;
  const MODELS = [
    { name: "even difficulty", rate: (rng: Rng) => rng.next(), mean: 0.5 },
    { name: "mostly hard", rate: (rng: Rng) => rng.next() ** 4, mean: 0.2 },
    { name: "all or nothing", rate: (rng: Rng) => (rng.next() < 0.7 ? 0.02 : 0.98), mean: 0.7 * 0.02 + 0.3 * 0.98 },
  ];
  const count = (rng: Rng, rate: number, draws: number): number => {
    let hits = 0;
    for (let draw = 0; draw < draws; draw += 1) if (rng.next() < rate) hits += 1;
    return hits;
  };
  const covers = ({ low, high }: Estimate, truth: number): boolean => (low ?? 1) <= truth && truth <= (high ?? 0);
  const share = (run: (rng: Rng) => boolean, seed: string): number => {
    const rng = createRng(seed);
    return Array.from({ length: RUNS }, () => run(rng)).filter(Boolean).length / RUNS;
  };

  const cells = MODELS.flatMap((model) =>
    [10, 30, 100].flatMap((tasks) => [1, 8].map((draws) => [model.name, tasks, draws, model] as const)),
  );
  it.each(cells)("success, %s, %i tasks with %i episodes", (name, tasks, draws, model) => {
    const covered = share((rng) => {
      const parts: Part[] = Array.from({ length: tasks }, () => ({ sum: count(rng, model.rate(rng), draws), draws }));
      return covers(shareOverTasks(parts), model.mean);
    }, `${name} ${tasks} ${draws}`);
    // Shares of ten draws are so coarse that Wilson's coverage swings around 95 %.
    expect(covered).toBeGreaterThan(tasks === 10 ? 0.915 : 0.93);
    expect(covered).toBeLessThan(0.99);
  });

  it.each(MODELS.map((model) => [model.name, model] as const))("pass@4 of 8 episodes, %s, 30 tasks", (name, model) => {
    const truth = expectedPass(model.rate, 4);
    const covered = share((rng) => {
      const tasks = Array.from({ length: 30 }, (_, index) => {
        const correct = count(rng, model.rate(rng), 8);
        return { id: `${index}`, source: "", episodes: 8, correct, voided: 0, meanReward: correct / 8 };
      });
      return covers(scoreTasks(tasks, [4]).passAtK[0] as Estimate, truth);
    }, name);
    expect(covered).toBeGreaterThan(0.93);
  });

  it.each(MODELS.map((model) => [model.name, model] as const))("a paired difference, %s, 30 tasks", (name, model) => {
    const better = (rate: number): number => rate + 0.1 * (1 - rate);
    const covered = share((rng) => {
      const differences = Array.from({ length: 30 }, () => {
        const rate = model.rate(rng);
        return (count(rng, better(rate), 4) - count(rng, rate, 4)) / 4;
      });
      return covers(meanDifference(differences), 0.1 * (1 - model.mean));
    }, name);
    expect(covered).toBeGreaterThan(0.93);
  });

  /** Over 200,000 tasks, from their rates: a draw less noise than the cells have. */
  function expectedPass(rate: (rng: Rng) => number, k: number): number {
    const rng = createRng("truth");
    let sum = 0;
    for (let i = 0; i < 200_000; i += 1) sum += 1 - (1 - rate(rng)) ** k;
    return sum / 200_000;
  }
});

it("pass@k of a score is unbiased, over the tasks with k scored episodes", () => {
  const task = (id: string, episodes: number, correct: number) => ({
    ...{ id, source: "s", episodes, correct, voided: 0, meanReward: correct },
  });
  const score = scoreTasks([task("a", 4, 1), task("b", 4, 4), task("c", 1, 0), task("d", 0, 0)], [1, 4, 8]);
  expect(score).toMatchObject({ tasks: 3, tasksInAll: 4, episodes: 9, voided: 0 });
  const [one, four, eight] = score.passAtK;
  expect(one).toMatchObject({ k: 1, tasks: 3, value: (0.25 + 1 + 0) / 3 });
  expect(four).toMatchObject({ k: 4, tasks: 2, value: 1 });
  expect(four?.value).toBe((passAtK({ attempts: 4, correct: 1 }, 4) + 1) / 2);
  expect(eight).toEqual({ k: 8, tasks: 0, value: null, low: null, high: null });
});

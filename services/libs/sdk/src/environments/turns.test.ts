// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type RewardFunction, zeroReward } from "./reward-function.ts";
import { mathReward } from "@whetstone/graders";
import { RevisingEnvironment } from "./revising.ts";
import { MultiTurnEnvironment, type Turn } from "./multi-turn.ts";
import { SingleTurnEnvironment } from "./single-turn.ts";

interface Countdown {
  readonly [field: string]: unknown;
  left: number;
}

/** Eats its task: what rLLM's `pop` did to the dict that all episodes shared. */
class EatingEnvironment extends MultiTurnEnvironment<Countdown> {
  override getRewardAndNextObs(task: Countdown, action: unknown): Turn {
    task.left -= 1;
    return { reward: 1, nextObservation: `${String(action)} ${task.left}`, terminated: task.left === 0 };
  }
}

const right: RewardFunction = (task, action) => {
  const isCorrect = action === task["answer"];
  return { reward: isCorrect ? 1 : 0, isCorrect, metadata: { seen: action } };
};

describe("MultiTurnEnvironment", () => {
  it("shows the task, then what each turn brings, and is truncated after its turns", async () => {
    const environment = new EatingEnvironment({ left: 9 }, { maxTurns: 2 });
    expect(environment.reset({ seed: 1 })).toEqual({ observation: { left: 9 }, info: {} });
    const open = { observation: "a 8", reward: 1, terminated: false, truncated: false, info: {} };
    expect(await environment.step("a")).toEqual(open);
    expect(await environment.step("b")).toEqual({ ...open, observation: {}, truncated: true });
    expect(environment.history).toEqual(["a", "b"]);
    await expect(environment.step("c")).rejects.toThrow(/none follows the end/);
  });

  it("ends early when a turn says so; three turns by default", async () => {
    const environment = new EatingEnvironment({ left: 1 });
    await expect(environment.step("a")).rejects.toThrow(/needs a reset/);
    await environment.reset({ seed: 1 });
    expect(await environment.step("a")).toMatchObject({ terminated: true, truncated: false, observation: {} });
    expect(environment.maxTurns).toBe(3);
    expect(() => new EatingEnvironment({ left: 1 }, { maxTurns: 0 })).toThrow(/maxTurns/);
  });

  it("never sees another episode's state: one task object serves them all", async () => {
    const task = { left: 3 };
    const environments = Array.from({ length: 1000 }, () => new EatingEnvironment(task));
    const observations = await Promise.all(
      environments.map(async (environment) => {
        await environment.reset({ seed: 1 });
        await environment.step("a");
        return (await environment.step("a")).observation;
      }),
    );
    expect(new Set(observations)).toEqual(new Set(["a 1"]));
    expect(task).toEqual({ left: 3 });
  });
});

describe("SingleTurnEnvironment", () => {
  it("one answer, one reward; the truth stays out of the observation", async () => {
    const task = Object.freeze({ question: "2+2?", answer: "4" });
    for (const [action, reward] of [
      ["4", 1],
      ["5", 0],
    ] as const) {
      const environment = new SingleTurnEnvironment({ task, rewardFunction: right });
      expect((await environment.reset({ seed: 1 })).observation).toEqual({ question: "2+2?" });
      const result = await environment.step(action);
      expect(result).toMatchObject({ reward, terminated: true, info: { success: reward === 1, seen: action } });
    }
  });

  it("the same options make any number of environments, each with its reward function (rLLM popped it from the first)", async () => {
    const options = Object.freeze({ task: Object.freeze({ question: "?", answer: "4" }), rewardFunction: right });
    for (let i = 0; i < 3; i += 1) {
      const environment = new SingleTurnEnvironment(options);
      await environment.reset({ seed: i });
      expect((await environment.step("4")).reward).toBe(1);
    }
  });

  it("a grader that fails is a GRADER failure, not reward 0", async () => {
    const environment = new SingleTurnEnvironment({
      task: {},
      rewardFunction: () => Promise.reject(new Error("down")),
    });
    await environment.reset({ seed: 1 });
    await expect(environment.step("")).rejects.toMatchObject({ failureClass: "GRADER" });
    const silent = new SingleTurnEnvironment({ task: {}, rewardFunction: zeroReward });
    await silent.reset({ seed: 1 });
    expect((await silent.step("")).reward).toBe(0);
  });
});

describe("RevisingEnvironment", () => {
  const task = { question: "2+2?", answer: "4" };
  const rewardFunction = mathReward({ extraction: "whole" });

  async function play(answers: string[], options: { feedback?: "blind"; improvementBonus?: number } = {}) {
    const environment = new RevisingEnvironment({ task, rewardFunction, maxTurns: answers.length, ...options });
    await environment.reset({ seed: 1 });
    const results = [];
    for (const answer of answers) {
      results.push(await environment.step(answer));
      if (results.at(-1)?.terminated) break;
    }
    return results;
  }

  const rewards = async (...given: Parameters<typeof play>) => (await play(...given)).map(({ reward }) => reward);

  it("asks again after a wrong answer, and ends with a right one", async () => {
    const [first, second, ...more] = await play(["5", "4", "4"]);
    expect(first).toMatchObject({
      reward: 0,
      terminated: false,
      observation: { feedback: expect.stringMatching(/review/) as string },
      info: { success: false },
    });
    expect(second).toMatchObject({ reward: 1, terminated: true, info: { success: true } });
    expect(more).toEqual([]);
  });

  it("turn rewards add up to the last grade: being wrong first gains nothing", async () => {
    expect(await rewards(["4"])).toEqual([1]);
    expect(await rewards(["5", "4"])).toEqual([0, 1]);
    expect(await rewards(["5", "6"])).toEqual([0, 0]);
    expect(await rewards(["4", "5"], { feedback: "blind" })).toEqual([1, -1]);
    expect(await rewards(["4", "4"], { feedback: "blind" })).toEqual([1, 0]);
  });

  it("pays a bonus for improvement, and charges it for the opposite", async () => {
    expect(await rewards(["5", "4"], { improvementBonus: 0.5 })).toEqual([0, 1.5]);
    expect(await rewards(["4", "5"], { feedback: "blind", improvementBonus: 0.5 })).toEqual([1, -1.5]);
  });
});

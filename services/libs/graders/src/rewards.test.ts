// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { combineRewards, EpisodeError, grade, type RewardFunction, zeroReward } from "@whetstone/sdk";
import { extractAnswer, type Extraction } from "./extract-answer.ts";
import { boxedFormatReward, thinkAnswerFormatReward, thinkFormatReward } from "./format-rewards.ts";
import { mathReward } from "./math-reward.ts";
import { exactMatchReward, f1Reward, normalizeAnswer } from "./text-match.ts";

describe("extraction", () => {
  const cases: readonly (readonly [string, string | undefined, Extraction?])[] = [
    ["so \\boxed{42}", "42"],
    ["first \\boxed{1}, no: \\boxed{2}", "2"],
    ["\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"],
    ["\\boxed{\\{1,2\\}}", "\\{1,2\\}"],
    ["\\fbox{7}", "7"],
    ["\\boxed 7.", "7"],
    ["\\boxed{1} and $\\boxed{2}$", "1, 2"],
    ["\\[\\boxed{(1, 2)}, \\quad \\text{and} \\boxed{(2, 1)}\\]", "(1, 2), (2, 1)"],
    ["\\boxed{1} is wrong and \\boxed{2}", "2"],
    ["\\boxed{}", undefined],
    ["\\boxed{7", undefined],
    ["<answer> 7 </answer>", "7"],
    ["<answer>7</answer> … <answer>8</answer>", "8"],
    ["<answer>7", undefined],
    ["6 * 7 = 42\n#### 42", "42"],
    ["#### 1,000\n", "1,000"],
    ["Answer: 42", "42"],
    ["**Answer:** 42", "42"],
    ["Final answer: $\\frac12$.", "$\\frac12$."],
    ["The answer is 42. Thank you.", "42"],
    ["the answer is: 3.5 cm", "3.5 cm"],
    ["Answer: 1\nNo, wait.\nAnswer: 2", "2"],
    ["answers vary", undefined],
    ["I think it is 42", undefined],
    ["I think it is 42", "42", "lastNumber"],
    ["from 3 to -4.5 or so", "-4.5", "lastNumber"],
    ["about 1,234 of them", "1,234", "lastNumber"],
    ["it is 3/4", "3/4", "lastNumber"],
    ["it is \\frac{1+\\sqrt5}{2}.", "\\frac{1+\\sqrt5}{2}", "lastNumber"],
    ["so x is $1 + \\sqrt{5}$", "1 + \\sqrt{5}", "lastNumber"],
    ["the price was $5 and is $7", "$7", "lastNumber"],
    ["a brace { and 3", "3", "lastNumber"],
    ["none", undefined, "lastNumber"],
    ["42", undefined],
    [" 42 ", "42", "whole"],
    ["x".repeat(301), undefined, "whole"],
    ["", undefined, "whole"],
    ["<think>\\boxed{1}</think> \\boxed{2}", "2"],
    ["<think>\\boxed{1}</think> so be it", undefined],
    ["<think>it may be \\boxed{1}", undefined],
    ["reasoning \\boxed{1} </think>", undefined],
    ["reasoning </think>Answer: 5", "5"],
    ["<think>5", undefined, "whole"],
  ];

  it.each(cases.map(([text, answer, extraction]) => ({ text, answer, extraction })))("$text → $answer", (example) => {
    const { text, answer, extraction } = example;
    expect(extractAnswer(text, extraction)).toBe(answer);
  });

  it("is linear in the text's length", () => {
    const before = process.cpuUsage();
    for (const part of ["\\boxed{", "answer ", "<answer>", "#### ", "1 / ", "<think>", "{}{}", " \n "]) {
      for (const extraction of ["marked", "lastNumber", "whole"] as const)
        extractAnswer(part.repeat(30_000), extraction);
    }
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000); // µs of CPU: the machine may be busy.
  });
});

describe("mathReward", () => {
  const reward = mathReward();

  it.each([
    ["\\boxed{42}", 42, true],
    ["\\boxed{0.5}", "\\frac12", true],
    ["\\boxed{0.5}", "so \\boxed{\\frac12}", true],
    ["\\boxed{72}", "48/2 = 24\n48+24 = 72\n#### 72", true],
    ["\\boxed{5}", [4, "5"], true],
    ["\\boxed{6}", [4, "5"], false],
    ["42", 42, false],
    ["it is not \\boxed{}", 42, false],
  ])("%j for %j: %s", async (action, answer, isCorrect) => {
    const output = await reward({ answer }, action);
    expect([output.isCorrect, output.reward]).toEqual([isCorrect, isCorrect ? 1 : 0]);
  });

  it("is never satisfied by any text when the truth is something else", async () => {
    for (const action of [
      "",
      "yes",
      "answer",
      "\\boxed{anything}",
      "Answer: n/a",
      "<answer>?</answer>",
      "#### x",
      "0",
    ]) {
      expect(await mathReward({ extraction: "whole" })({ answer: "42" }, action)).toMatchObject({ isCorrect: false });
    }
  });

  it("a task without a truth is a broken task, not reward 0", async () => {
    for (const task of [{}, { answer: "" }, { answer: [] }, { answer: null }, { answer: [""] }, { answer: { a: 1 } }]) {
      await expect(grade(reward, task, "\\boxed{1}")).rejects.toMatchObject({ failureClass: "TASK" });
    }
  });

  it("says what it read", async () => {
    expect((await reward({ answer: 2 }, "\\boxed{1}")).metadata).toEqual({ answer: "1", truth: "2" });
    expect((await reward({ answer: 2 }, "one")).metadata).toEqual({ answer: null, truth: "2" });
  });
});

describe("text rewards", () => {
  it("normalises as SQuAD does", () => {
    expect(normalizeAnswer("  The Eiffel-Tower, a  'tower'! ")).toBe("eiffeltower tower");
  });

  it.each([
    ["The Eiffel Tower.", "eiffel tower", true],
    ["<answer>Paris</answer>", "Paris", true],
    ["Answer: Paris", "Paris", true],
    ["Lyon", "Paris", false],
    ["", "Paris", false],
    ["the", "Paris", false],
  ])("exact match: %j for %j: %s", async (action, answer, isCorrect) => {
    expect((await exactMatchReward()({ answer }, action)).isCorrect).toBe(isCorrect);
  });

  it.each([
    ["the tall tower", ["tall tower"], 1],
    ["tall tower of Paris", ["tall tower"], 2 / 3],
    ["tower tower", ["tall tower"], 0.5],
    ["nothing", ["tall tower", "nothing much"], 2 / 3],
    ["yes it is", ["yes"], 0],
    ["", ["tall tower"], 0],
  ])("F1: %j for %j is %d", async (action, answer, f1) => {
    const output = await f1Reward({ threshold: 0.6 })({ answer }, action);
    expect(output.reward).toBeCloseTo(f1, 10);
    expect(output.isCorrect).toBe(f1 >= 0.6);
  });

  it("refuses a truth that every empty answer would match", async () => {
    for (const reward of [exactMatchReward(), f1Reward()]) {
      await expect(grade(reward, { answer: "The." }, "")).rejects.toMatchObject({ failureClass: "TASK" });
    }
  });
});

describe("format rewards", () => {
  it.each([
    ["<think>a</think>b", 1, 0],
    ["a</think>b", 1, 0],
    ["<think></think>b", 0, 0],
    ["<think>a</think>", 0, 0],
    ["<think>a", 0, 0],
    ["b", 0, 0],
    ["x<think>a</think>b", 0, 0],
    ["<think>a</think>b</think>c", 0, 0],
    ["<think>a</think>\n<answer>b</answer>", 1, 1],
    ["<think>a</think><answer></answer>", 1, 0],
    ["<think>a</think>so<answer>b</answer>", 1, 0],
    ["<answer>b</answer><think>a</think>", 0, 0],
    ["<think>a</think><answer>b</answer>!", 1, 0],
  ])("%j: think %d, think and answer %d", async (action, think, both) => {
    expect((await thinkFormatReward({}, action)).reward).toBe(think);
    expect((await thinkAnswerFormatReward({}, action)).reward).toBe(both);
  });

  it("boxed", async () => {
    for (const [action, reward] of [
      ["\\boxed{1}", 1],
      ["\\boxed{ }", 0],
      ["\\boxed", 0],
    ] as const) {
      expect((await boxedFormatReward({}, action)).reward).toBe(reward);
    }
  });
});

describe("grading", () => {
  it("calls whatever a reward function throws a GRADER failure, unless it names the class", async () => {
    const broken: RewardFunction = () => Promise.reject(new TypeError("x is undefined"));
    await expect(grade(broken, {}, "")).rejects.toMatchObject({
      failureClass: "GRADER",
      message: expect.stringMatching(/x is undefined/) as string,
    });
    const busy: RewardFunction = () => {
      throw new EpisodeError("INFRASTRUCTURE", "the judge is down");
    };
    await expect(grade(busy, {}, "")).rejects.toMatchObject({ failureClass: "INFRASTRUCTURE" });
    const nan: RewardFunction = () => ({ reward: Number.NaN, isCorrect: true, metadata: {} });
    await expect(grade(nan, {}, "")).rejects.toMatchObject({ failureClass: "GRADER" });
  });

  it("gives the function text, whatever the action is", async () => {
    const seen: string[] = [];
    const spy: RewardFunction = (_task, action) => {
      seen.push(action);
      return zeroReward({}, action);
    };
    for (const action of ["a", undefined, null, { a: 1 }, 7]) await grade(spy, {}, action);
    expect(seen).toEqual(["a", "", "", '{"a":1}', "7"]);
  });

  it("weighs parts; the first one's verdict counts", async () => {
    const reward = combineRewards([
      { name: "answer", weight: 1, rewardFunction: mathReward() },
      { name: "format", weight: 0.1, rewardFunction: thinkFormatReward },
    ]);
    const output = await reward({ answer: 2 }, "<think>hm</think>\\boxed{3}");
    expect(output).toMatchObject({
      isCorrect: false,
      metadata: { answer: { answer: "3", reward: 0 }, format: { reward: 1 } },
    });
    expect(output.reward).toBeCloseTo(0.1, 12);
  });
});

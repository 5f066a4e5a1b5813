// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { EpisodeError } from "@whetstone/sdk";
import { describe, expect, it } from "vitest";
import type { Extraction } from "./extract-answer.ts";
import { mathReward } from "./math-reward.ts";
import { type MathJudge, mathVerifyReward } from "./math-verify-reward.ts";

interface Pair {
  readonly truth: string;
  readonly answer: string;
  readonly isEqual: boolean;
}

/** Of Math-Verify's own tests. */
const PAIRS = readFileSync(join(import.meta.dirname, "../test-support/math-verify-pairs.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Pair);

describe("our own grader on Math-Verify's pairs", () => {
  const isRight = async ({ truth, answer }: Pair, extraction: Extraction) =>
    (await mathReward({ extraction })({ answer: truth }, answer)).isCorrect;

  it("calls none equal that are not", async () => {
    const verdicts = await Promise.all(PAIRS.map((pair) => isRight(pair, "whole")));
    expect(PAIRS.filter(({ isEqual }, i) => verdicts[i] === true && !isEqual)).toEqual([]);
    expect(PAIRS.filter(({ isEqual }, i) => verdicts[i] === isEqual).length).toBeGreaterThanOrEqual(194);
  });

  it("is led astray only by where the last number stands", async () => {
    const verdicts = await Promise.all(PAIRS.map((pair) => isRight(pair, "lastNumber")));
    const wrong = PAIRS.filter(({ isEqual }, i) => verdicts[i] === true && !isEqual);
    expect(wrong.map(({ answer }) => answer)).toEqual(["$-[0,1)$", "Answer $ \n 9 \n $", "Answer \\( \n 9 \n \\)"]);
  });
});

describe("what Math-Verify is given", () => {
  async function given(answer: string, action: string, extraction?: Extraction) {
    const asked: unknown[] = [];
    const judge: MathJudge = {
      judge: async (truths, text) => {
        asked.push([truths, text]);
        return { isEqual: true, answer: text, judge: "j 1" };
      },
    };
    const { reward, metadata } = await mathVerifyReward(judge, { extraction })({ answer }, action);
    return { asked: asked[0], reward, metadata };
  }

  it.each([
    ["7", "\\boxed{7}", ["7"], "\\boxed{7}"],
    ["x", "so <answer>x</answer>", ["\\boxed{x}"], "\\boxed{x}"],
    ["a #### 7", "#### 1,000", ["7"], "1,000"],
    ["$x$", "Answer: $x$.", ["$x$"], "$x$."],
    ["7 cm", "Answer: \\$7", ["7 cm"], "7"],
    ["1, 2", "Answer: (1)", ["\\boxed{1, 2}"], "\\boxed{(1)}"],
    ["7", "<think>\\boxed{8}</think>Answer: 7", ["7"], "7"],
  ])("truth %j, answer %j", async (truth, action, truths, text) => {
    expect((await given(truth, action)).asked).toEqual([truths, text]);
  });

  it("is nothing where no answer is marked, else the end of the text", async () => {
    expect(await given("7", "it is 7")).toMatchObject({ asked: undefined, reward: 0, metadata: { answer: null } });
    expect((await given("7", "it is 7", "whole")).asked).toEqual([["7"], "it is 7"]);
    const [, text] = (await given("7", `${"x ".repeat(100_000)}7`, "lastNumber")).asked as [unknown, string];
    expect([text.length, text.slice(-3)]).toEqual([20_000, "x 7"]);
  });

  it("is no text where the task has no truth", async () => {
    await expect(given("", "\\boxed{7}")).rejects.toThrow(EpisodeError);
  });
});

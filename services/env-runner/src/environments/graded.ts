// SPDX-License-Identifier: Apache-2.0
import { exactMatchReward, f1Reward, mathReward } from "@whetstone/graders";
import type { RewardFunction } from "@whetstone/sdk";
import { z } from "zod";

const Truth = z.union([z.string().min(1), z.number()]);

/** A question with a known answer, and how an answer is judged. Usually `question` and `answer` come with the task. */
export const GradedArgs = z.strictObject({
  question: z.string().min(1).max(100_000).describe("what the agent sees"),
  answer: z.union([Truth, z.array(Truth).min(1).max(100)]).describe("the truth, or several, each of them right"),
  grader: z
    .enum(["math", "exact", "f1"])
    .default("math")
    .describe("math: the same number, formula, interval, …; exact: the same words; f1: reward is the words' F1"),
  extraction: z
    .enum(["marked", "lastNumber", "whole"])
    .optional()
    .describe(
      "where the answer stands: \\boxed{}, <answer>, ####, Answer: (default of math); else the last number; " +
        "else all of a short text (default of exact and f1)",
    ),
  metadata: z.record(z.string(), z.unknown()).optional().describe("the dataset's other columns; not used"),
});

export type Graded = z.output<typeof GradedArgs>;

const REWARDS = { math: mathReward, exact: exactMatchReward, f1: f1Reward } as const;

export function rewardFunctionOf({ grader, extraction }: Pick<Graded, "grader" | "extraction">): RewardFunction {
  return REWARDS[grader]({ extraction });
}

/** What environment and reward function know of the task. */
export function taskOf({ question, answer }: Pick<Graded, "question" | "answer">) {
  return { question, answer };
}

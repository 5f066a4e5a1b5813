// SPDX-License-Identifier: Apache-2.0
import { ConfigError, parseOrThrow } from "@whetstone/core";
import { exactMatchReward, f1Reward, type MathJudge, mathReward, mathVerifyReward } from "@whetstone/graders";
import type { RewardFunction } from "@whetstone/sdk";
import { z } from "zod";

const Truth = z.union([z.string().min(1), z.number()]);

/** A question with a known answer, and how an answer is judged. Usually `question` and `answer` come with the task. */
export const GradedArgs = z.strictObject({
  question: z.string().min(1).max(100_000).describe("what the agent sees"),
  answer: z.union([Truth, z.array(Truth).min(1).max(100)]).describe("the truth, or several, each of them right"),
  grader: z
    .enum(["math", "math-verify", "exact", "f1"])
    .default("math")
    .describe(
      "math: the same number, formula, interval, …; math-verify: the same, as the Python library Math-Verify says; " +
        "exact: the same words; f1: reward is the words' F1",
    ),
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

/** Math-Verify, which may not be installed. */
export interface Judge extends MathJudge {
  /** Why it cannot be asked. Undefined: it can. */
  readonly missing: string | undefined;
}

/** @throws ConfigError, also where the grader that is wanted is not installed */
export function parseGraded<Schema extends z.ZodType<Pick<Graded, "grader">>>(
  schema: Schema,
  args: unknown,
  { missing }: Judge,
): z.output<Schema> {
  const parsed = parseOrThrow(schema, args, "");
  if (parsed.grader !== "math-verify" || missing === undefined) return parsed;
  throw new ConfigError([{ path: "grader", reason: missing }]);
}

export function rewardFunctionOf(
  { grader, extraction }: Pick<Graded, "grader" | "extraction">,
  judge: MathJudge,
): RewardFunction {
  switch (grader) {
    case "math":
      return mathReward({ extraction });
    case "math-verify":
      return mathVerifyReward(judge, { extraction });
    case "exact":
      return exactMatchReward({ extraction });
    case "f1":
      return f1Reward({ extraction });
  }
}

/** What environment and reward function know of the task. */
export function taskOf({ question, answer }: Pick<Graded, "question" | "answer">) {
  return { question, answer };
}

// SPDX-License-Identifier: Apache-2.0
import { exactMatchReward, f1Reward } from "@whetstone/graders";
import { grade, type Info, type RewardOutput } from "@whetstone/sdk";

/** What the form of an episode is worth, as Search-R1 has it; each in [0, 1], and 0 by default. */
export interface FormatWeights {
  /** A well-formed episode whose answer is wrong or missing; a right answer loses as much where the form is wrong. Search-R1: 0.2. */
  readonly structure?: number | undefined;
  /** A wrong answer that is at least in its tags. Search-R1: 0.1. */
  readonly final?: number | undefined;
  /** Beside structure: the truth stood in what was found. Search-R1: 0, or 0.1. */
  readonly retrieval?: number | undefined;
}

export interface SearchTask {
  readonly question: string;
  /** The truth, or several, each of them right. */
  readonly answer: string | number | readonly (string | number)[];
}

export function truthsOf({ answer }: SearchTask): string[] {
  return [answer].flat().map(String);
}

export interface Judged {
  /** "" where there was none. */
  readonly answer: string;
  readonly isWellFormed: boolean;
  readonly isRetrieved: boolean;
}

/**
 * EM or F1 in SQuAD's normal form, with Search-R1's rules of form: the reward is the answer's (less `structure` where the form is
 * wrong), or what the form alone is worth, whichever is more. Source: Search-R1, verl/utils/reward_score/qa_em_format.py.
 */
export async function searchReward(
  grader: "exact" | "f1",
  weights: FormatWeights,
  { answer, isWellFormed, isRetrieved }: Judged,
  task: SearchTask,
): Promise<RewardOutput> {
  const { structure = 0, final = 0, retrieval = 0 } = weights;
  const judge = grader === "exact" ? exactMatchReward() : f1Reward();
  const { reward, isCorrect, metadata } = await grade(judge, task as unknown as Info, answer);
  const ofAnswer = isWellFormed ? reward : reward - structure;
  const answered = answer === "" ? 0 : final;
  const ofForm = isWellFormed ? structure + (isRetrieved ? retrieval : 0) : answered;
  return {
    reward: Math.max(ofAnswer, ofForm),
    isCorrect,
    metadata: { ...metadata, wellFormed: isWellFormed, retrieved: isRetrieved },
  };
}

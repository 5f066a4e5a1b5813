// SPDX-License-Identifier: Apache-2.0
import { boxed, extractAnswer, type Extraction } from "./extract-answer.ts";
import { mathEquivalent } from "./math-equivalence.ts";
import { truthsOf } from "./truths.ts";
import type { RewardFunction } from "@whetstone/sdk";

export interface AnswerRewardOptions {
  /** The task's field that holds the ground truth. Default "answer". */
  readonly truth?: string | undefined;
  readonly extraction?: Extraction | undefined;
  /** Defaults 1 and 0. */
  readonly correct?: number | undefined;
  readonly incorrect?: number | undefined;
}

/**
 * Judges a mathematical answer against the task's truth (text, number, or several, each of them right). Truths may be
 * written as `\boxed{…}` or GSM8K's "… #### 42". Metadata: `answer` as it was read (null: none) and `truth`.
 */
export function mathReward(options: AnswerRewardOptions = {}): RewardFunction {
  const { truth: field = "answer", extraction = "marked" } = options;
  return (task, action) => {
    const truths = truthsOf(task, field).map(plainTruth);
    const answer = extractAnswer(action, extraction);
    const isCorrect = answer !== undefined && truths.some((truth) => mathEquivalent(answer, truth));
    return verdict(isCorrect, options, { answer: shown(answer), truth: truths.join(" | ") });
  };
}

function plainTruth(truth: string): string {
  const at = truth.lastIndexOf("####");
  return boxed(truth) ?? (at < 0 ? truth : truth.slice(at + 4).trim());
}

/** What is recorded of an answer, characters. */
const SHOWN = 200;

export function shown(answer: string | undefined): string | null {
  return answer?.slice(0, SHOWN) ?? null;
}

export function verdict(isCorrect: boolean, options: AnswerRewardOptions, metadata: Record<string, unknown>) {
  const { correct = 1, incorrect = 0 } = options;
  return { reward: isCorrect ? correct : incorrect, isCorrect, metadata };
}

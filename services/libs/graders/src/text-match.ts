// SPDX-License-Identifier: Apache-2.0
import { EpisodeError, type RewardFunction } from "@whetstone/sdk";
import { extractAnswer } from "./extract-answer.ts";
import { type AnswerRewardOptions, shown, verdict } from "./math-reward.ts";
import { truthsOf } from "./truths.ts";

/** SQuAD's normal form: lower case, no punctuation, no articles, single spaces. */
export function normalizeAnswer(text: string): string {
  return text
    .toLowerCase()
    .replace(/[\p{P}\p{S}]/gu, "")
    .replace(/\b(?:a|an|the)\b/gu, " ")
    .replace(/\s+/gu, " ")
    .trim();
}

/** The answer is one of the truths in SQuAD's normal form. `extraction` is "whole" by default. */
export function exactMatchReward(options: AnswerRewardOptions = {}): RewardFunction {
  return (task, action) => {
    const truths = normalTruths(task, options);
    const answer = extractAnswer(action, options.extraction ?? "whole");
    const isCorrect = answer !== undefined && truths.includes(normalizeAnswer(answer));
    return verdict(isCorrect, options, { answer: shown(answer) });
  };
}

export interface F1RewardOptions extends Omit<AnswerRewardOptions, "correct" | "incorrect"> {
  /** Smallest F1 that is called correct, (0, 1]. Default 1. The reward is F1 itself. */
  readonly threshold?: number | undefined;
}

/** Best F1 over the words of each truth. Source: SQuAD's evaluation. "yes" and "no" must match exactly. */
export function f1Reward(options: F1RewardOptions = {}): RewardFunction {
  const { threshold = 1 } = options;
  return (task, action) => {
    const truths = normalTruths(task, options);
    const answer = extractAnswer(action, options.extraction ?? "whole");
    const words = normalizeAnswer(answer ?? "");
    const reward = Math.max(...truths.map((truth) => tokenF1(words, truth)));
    return { reward, isCorrect: reward >= threshold, metadata: { answer: shown(answer) } };
  };
}

function normalTruths(task: Readonly<Record<string, unknown>>, { truth: field = "answer" }: AnswerRewardOptions) {
  const truths = truthsOf(task, field).map(normalizeAnswer);
  if (!truths.includes("")) return truths;
  throw new EpisodeError("TASK", `${field}: a truth of punctuation and articles alone cannot be matched`);
}

const VERDICTS: ReadonlySet<string> = new Set(["yes", "no", "noanswer"]);

/** Harmonic mean of precision and recall over words, both in normal form; [0, 1]. */
export function tokenF1(answer: string, truth: string): number {
  if (answer === truth) return answer === "" ? 0 : 1;
  if (VERDICTS.has(answer) || VERDICTS.has(truth)) return 0;
  const [given, wanted] = [answer.split(" ").filter(Boolean), truth.split(" ").filter(Boolean)];
  const left = new Map<string, number>();
  for (const word of wanted) left.set(word, (left.get(word) ?? 0) + 1);
  let shared = 0;
  for (const word of given) {
    const count = left.get(word) ?? 0;
    if (count > 0) shared += 1;
    left.set(word, count - 1);
  }
  return shared === 0 ? 0 : (2 * shared) / (given.length + wanted.length);
}

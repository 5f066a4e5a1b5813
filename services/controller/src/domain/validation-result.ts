// SPDX-License-Identifier: Apache-2.0
import { computePassAtK } from "@whetstone/core";
import { commonestFailure } from "./commonest-failure.ts";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";

/** Scores of one validation variant. */
export interface ValidationScore {
  readonly tasks: number;
  readonly episodes: number;
  readonly voided: number;
  readonly success: number;
  readonly meanReward: number;
  readonly passAtK: Record<number, number>;
  /** Of those voided, for people. */
  readonly commonestFailure: string;
}

/**
 * Scores sealed validation episodes; those that failed for reasons that are not the policy's are left out (I6).
 * @param tasks summaries by task, each at most `attempts` long.
 */
export function scoreValidation(tasks: readonly (readonly EpisodeSummary[])[], attempts: number): ValidationScore {
  const scored = tasks.map((summaries) => summaries.filter(isScored)).filter((summaries) => summaries.length > 0);
  const flat = scored.flat();
  const voided = tasks.flatMap((summaries) => summaries.filter((summary) => !isScored(summary)));
  return {
    tasks: scored.length,
    episodes: flat.length,
    voided: voided.length,
    success: mean(flat.map((summary) => (summary.isCorrect ? 1 : 0))),
    meanReward: mean(flat.map((summary) => summary.reward)),
    passAtK: passAtKs(scored, attempts),
    commonestFailure: commonestFailure(voided.map((summary) => ({ summary, reason: "" }))),
  };
}

function isScored(summary: EpisodeSummary): boolean {
  return (
    summary.failureClass === FailureClass.NONE ||
    summary.failureClass === FailureClass.POLICY ||
    summary.failureClass === FailureClass.DEADLINE
  );
}

function passAtKs(tasks: readonly (readonly EpisodeSummary[])[], attempts: number): Record<number, number> {
  const counts = tasks.map((summaries) => ({ attempts: summaries.length, correct: countCorrect(summaries) }));
  const result: Record<number, number> = {};
  for (let k = 1; k <= attempts; k *= 2) {
    if (counts.some((task) => task.attempts >= k)) result[k] = computePassAtK(counts, k);
  }
  return result;
}

function countCorrect(summaries: readonly EpisodeSummary[]): number {
  return summaries.filter((summary) => summary.isCorrect).length;
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

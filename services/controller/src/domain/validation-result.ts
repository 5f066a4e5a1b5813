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
}

/**
 * Scores sealed validation episodes; those that failed for reasons that are not the policy's are left out (I6).
 * @param tasks summaries by task, each at most `attempts` long.
 */
export function scoreValidation(tasks: readonly (readonly EpisodeSummary[])[], attempts: number): ValidationScore {
  const scored = tasks.map((summaries) => summaries.filter(isScored)).filter((summaries) => summaries.length > 0);
  const flat = scored.flat();
  const total = tasks.reduce((sum, summaries) => sum + summaries.length, 0);
  return {
    tasks: scored.length,
    episodes: flat.length,
    voided: total - flat.length,
    success: mean(flat.map((summary) => (summary.isCorrect ? 1 : 0))),
    meanReward: mean(flat.map((summary) => summary.reward)),
    passAtK: passAtKs(scored, attempts),
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
  const result: Record<number, number> = {};
  for (let k = 1; k <= attempts; k *= 2) {
    const enough = tasks.filter((summaries) => summaries.length >= k);
    if (enough.length > 0)
      result[k] = mean(enough.map((summaries) => passAtK(summaries.length, countCorrect(summaries), k)));
  }
  return result;
}

/** Unbiased estimate that one of k draws is correct: 1 - C(n-c, k) / C(n, k). Source: Chen et al., arXiv 2107.03374. */
export function passAtK(n: number, correct: number, k: number): number {
  if (n - correct < k) return 1;
  let miss = 1;
  for (let i = n - correct + 1; i <= n; i++) miss *= 1 - k / i;
  return 1 - miss;
}

function countCorrect(summaries: readonly EpisodeSummary[]): number {
  return summaries.filter((summary) => summary.isCorrect).length;
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

// SPDX-License-Identifier: Apache-2.0
import { t95, Z95 } from "./student-t.ts";

/** An estimate with its 95 % confidence interval. Null: there is too little to say it. */
export interface Estimate {
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

/** What one task adds to a mean over all: the sum over its draws, and how many those were. */
export interface Part {
  readonly sum: number;
  readonly draws: number;
}

const NOTHING: Estimate = { value: null, low: null, high: null };

/** Wilson's interval of a share seen in `draws` independent draws. Source: E. B. Wilson, JASA 22 (1927), p. 209. */
export function wilson(share: number, draws: number): Estimate {
  if (!(draws > 0)) return NOTHING;
  const spread = Z95 ** 2 / draws;
  const centre = (share + spread / 2) / (1 + spread);
  const half = (Z95 / (1 + spread)) * Math.sqrt((share * (1 - share)) / draws + spread / (4 * draws));
  return { value: share, low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}

/**
 * A share over tasks, each of which may have several draws. Draws of one task are alike, so that n draws say less than n
 * independent ones would: Wilson's interval with the effective number of draws p(1−p)/v, v the variance of the mean between tasks,
 * corrected for the degrees of freedom. With one draw a task it is Wilson's own. Sources: Korn and Graubard, Survey Methodology 24
 * (1998), p. 193; Franco et al., J. Survey Statistics and Methodology 7 (2019), p. 334; E. Miller, arXiv 2411.00640.
 * @param most  Independent draws that there can be at most. Default: all.
 */
export function shareOverTasks(parts: readonly Part[], most = drawsOf(parts)): Estimate {
  const { tasks, draws, mean, variance } = momentsOf(parts);
  if (tasks === 0) return NOTHING;
  const isPlain = parts.every(({ sum, draws: n }) => n === 0 || (n === 1 && (sum === 0 || sum === 1)));
  // All or nothing everywhere: nothing is seen of how alike a task's draws are, so a task counts once.
  if (isPlain || mean <= 0 || mean >= 1 || tasks === 1) return wilson(mean, isPlain ? draws : tasks);
  const seen = variance === 0 ? most : (mean * (1 - mean)) / variance;
  return wilson(mean, Math.min(most, seen) * (Z95 / t95(tasks - 1)) ** 2);
}

/** A mean of any numbers over tasks, with Student's interval between tasks. Where all are alike, their spread is not known. */
export function meanOverTasks(parts: readonly Part[]): Estimate {
  const { tasks, mean, variance } = momentsOf(parts);
  if (tasks === 0) return NOTHING;
  if (tasks === 1 || variance === 0) return { value: mean, low: null, high: null };
  const half = t95(tasks - 1) * Math.sqrt(variance);
  return { value: mean, low: mean - half, high: mean + half };
}

/**
 * The mean of differences that were taken task by task, with Student's interval. Where not one of n tasks differs, the interval is
 * the largest share of differing tasks that n equal ones do not rule out (Clopper and Pearson, Biometrika 26 (1934), p. 404).
 */
export function meanDifference(differences: readonly number[]): Estimate {
  const parts = differences.map((sum) => ({ sum, draws: 1 }));
  if (differences.length === 0 || differences.some((difference) => difference !== 0)) return meanOverTasks(parts);
  const bound = 1 - 0.025 ** (1 / differences.length);
  return { value: 0, low: -bound, high: bound };
}

interface Moments {
  readonly tasks: number;
  readonly draws: number;
  readonly mean: number;
  /** Of the mean, between tasks, by linearisation of the ratio. */
  readonly variance: number;
}

function momentsOf(parts: readonly Part[]): Moments {
  const given = parts.filter(({ draws }) => draws > 0);
  const [tasks, draws] = [given.length, drawsOf(given)];
  const mean = given.reduce((total, { sum }) => total + sum, 0) / draws;
  const squares = given.reduce((total, part) => total + (part.sum - mean * part.draws) ** 2, 0);
  return { tasks, draws, mean, variance: ((tasks / (tasks - 1)) * squares) / draws ** 2 };
}

function drawsOf(parts: readonly Part[]): number {
  return parts.reduce((total, { draws }) => total + draws, 0);
}

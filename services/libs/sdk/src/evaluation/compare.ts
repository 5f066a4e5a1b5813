// SPDX-License-Identifier: Apache-2.0
import { passAtK } from "@whetstone/core";

import { type Estimate, meanDifference } from "./intervals.ts";
import type { EvaluationReport } from "./report.ts";
import type { TaskScore } from "./score.ts";

/** A task that both evaluations scored. */
export interface TaskPair {
  readonly id: string;
  readonly source: string;
  /** Share of its scored episodes that are correct, in each. */
  readonly before: number;
  readonly after: number;
  readonly difference: number;
}

export interface PairedScore {
  readonly tasks: number;
  /** Means over the tasks that both have: a task counts once, however many episodes it has. */
  readonly before: number | null;
  readonly after: number | null;
  readonly success: Estimate;
  readonly meanReward: Estimate;
  /** For each k that both have episodes enough for. */
  readonly passAtK: readonly (Estimate & { readonly k: number; readonly tasks: number })[];
  readonly better: number;
  readonly worse: number;
  readonly same: number;
}

export interface Comparison {
  readonly before: string;
  readonly after: string;
  readonly total: PairedScore;
  readonly sources: readonly (PairedScore & { readonly source: string })[];
  /** Largest difference first. */
  readonly changed: readonly TaskPair[];
  /** Ids of tasks that only one of them scored. */
  readonly onlyBefore: readonly string[];
  readonly onlyAfter: readonly string[];
}

interface Both {
  readonly before: TaskScore;
  readonly after: TaskScore;
}

/**
 * Two evaluations, task by task: pairing takes the tasks' own difficulty out of the difference's interval.
 * Source: E. Miller, arXiv 2411.00640, section 4.2.
 */
export function compareReports(before: EvaluationReport, after: EvaluationReport): Comparison {
  const [old, now] = [scoredById(before), scoredById(after)];
  const both = [...old.values()].flatMap((task) => {
    const other = now.get(task.id);
    return other === undefined ? [] : [{ before: task, after: other }];
  });
  const ks = (before.ks ?? []).filter((k) => (after.ks ?? []).includes(k));
  const bySource = [...Map.groupBy(both, (pair) => pair.after.source)].sort(([a], [b]) => a.localeCompare(b));
  return {
    before: before.name,
    after: after.name,
    total: pairedScore(both, ks),
    sources: bySource.map(([source, pairs]) => ({ source, ...pairedScore(pairs, ks) })),
    changed: changedOf(both),
    onlyBefore: [...old.keys()].filter((id) => !now.has(id)),
    onlyAfter: [...now.keys()].filter((id) => !old.has(id)),
  };
}

function scoredById({ tasks }: EvaluationReport): Map<string, TaskScore> {
  return new Map(tasks.filter(({ episodes }) => episodes > 0).map((task) => [task.id, task]));
}

function pairedScore(both: readonly Both[], ks: readonly number[]): PairedScore {
  const differences = both.map((pair) => rate(pair.after) - rate(pair.before));
  const rewards = both.map(({ before, after }) => (after.meanReward ?? 0) - (before.meanReward ?? 0));
  return {
    tasks: both.length,
    before: mean(both.map((pair) => rate(pair.before))),
    after: mean(both.map((pair) => rate(pair.after))),
    success: meanDifference(differences),
    meanReward: meanDifference(rewards),
    passAtK: ks.map((k) => pairedPassAtK(both, k)),
    better: differences.filter((difference) => difference > 0).length,
    worse: differences.filter((difference) => difference < 0).length,
    same: differences.filter((difference) => difference === 0).length,
  };
}

function pairedPassAtK(both: readonly Both[], k: number): Estimate & { k: number; tasks: number } {
  const enough = both.filter(({ before, after }) => before.episodes >= k && after.episodes >= k);
  const differences = enough.map(({ before, after }) => passOf(after, k) - passOf(before, k));
  return { k, tasks: enough.length, ...meanDifference(differences) };
}

function passOf({ episodes, correct }: TaskScore, k: number): number {
  return passAtK({ attempts: episodes, correct }, k);
}

function changedOf(both: readonly Both[]): TaskPair[] {
  return both
    .map(({ before, after }) => ({
      id: after.id,
      source: after.source,
      before: rate(before),
      after: rate(after),
      difference: rate(after) - rate(before),
    }))
    .filter(({ difference }) => difference !== 0)
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference) || a.id.localeCompare(b.id));
}

function rate({ correct, episodes }: TaskScore): number {
  return correct / episodes;
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

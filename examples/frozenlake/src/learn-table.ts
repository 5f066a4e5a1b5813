// SPDX-License-Identifier: Apache-2.0
import { type AuditCounts, type FinishedJob, type Success, success, trainSeconds } from "./result.ts";

/** One job of `make learn`. */
export interface LearnRun {
  readonly algorithm: string;
  readonly seed: number;
  readonly steps: number;
  /** Share of held-out maps on which the goal was reached. */
  readonly heldOut: Success;
  /** Success of the training episodes at each step. */
  readonly curve: readonly number[];
  readonly seconds: number;
  readonly audit: AuditCounts;
}

export function learnRun(algorithm: string, seed: number, finished: FinishedJob): LearnRun {
  const { steps, audit } = finished;
  return {
    algorithm,
    seed,
    steps: steps.length,
    heldOut: success(finished, steps.length),
    curve: steps.map((step) => Number((step.metrics["rollout/success"] ?? 0).toFixed(3))),
    seconds: Math.round(trainSeconds(finished)),
    audit,
  };
}

/** A Markdown table, one line a run; the curve goes from 0 to 1. */
export function learnTable(runs: readonly LearnRun[]): string {
  const lines = runs.map(({ algorithm, seed, steps, heldOut, curve, seconds, audit }) => {
    const { lost, duplicated, stale, unlabelled } = audit;
    const shares = `${heldOut.greedy.toFixed(3)} | ${heldOut.sampled.toFixed(3)}`;
    return `| ${algorithm} | ${seed} | ${steps} | ${shares} | ${seconds} | ${lost}/${duplicated}/${stale}/${unlabelled} | \`${sparkline(curve)}\` |`;
  });
  const head =
    "| algorithm | seed | steps | held-out, greedy | held-out, sampled | seconds | audit | while it learned |";
  return [head, `|${" --- |".repeat(8)}`, ...lines, ""].join("\n");
}

const BARS = "▁▂▃▄▅▆▇█";

/** At most 20 bars, each the mean of its part of the values. */
function sparkline(values: readonly number[]): string {
  const width = Math.min(20, values.length);
  return Array.from({ length: width }, (_, i) => {
    const part = values.slice(Math.floor((i * values.length) / width), Math.floor(((i + 1) * values.length) / width));
    const mean = part.reduce((sum, value) => sum + value, 0) / Math.max(1, part.length);
    return BARS[Math.min(BARS.length - 1, Math.floor(mean * BARS.length))];
  }).join("");
}

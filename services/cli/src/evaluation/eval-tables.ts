// SPDX-License-Identifier: Apache-2.0
/** Evaluations as tables of text. */
import type { Comparison, Estimate, EvaluationReport, FailureCount, PairedScore, Score } from "@whetstone/sdk";

import { formatCount, formatNumber, formatSeconds, formatTable } from "../terminal/format.ts";

/** Lines: what was evaluated, one row a source, failures by class and phase. */
export function reportLines(report: EvaluationReport): string[] {
  const { total, sources, failures } = report;
  const header = ["SOURCE", "TASKS", "EPISODES", "VOIDED", "MEAN REWARD", "SUCCESS"];
  const rows = sources.map((score) => scoreRow(score.source, score));
  const all = sources.length === 1 ? [] : [scoreRow("all", total)];
  return [
    headline(report),
    ...formatTable([...header, ...report.ks.map((k) => `PASS@${k}`)], [...rows, ...all]),
    ...failureLines(failures),
  ];
}

function headline({ dataset, total, attempts, seconds }: EvaluationReport): string {
  const tasks = `${formatCount(total.tasksInAll)} tasks of ${dataset}`;
  const times = attempts === 1 ? "" : `, ${attempts} episodes each`;
  return `${tasks}${times}, ${formatSeconds(seconds)}; 95% intervals`;
}

function scoreRow(name: string, { tasks, episodes, voided, meanReward, success, passAtK }: Score): string[] {
  const counts = [tasks, episodes, voided].map(formatCount);
  return [name, ...counts, numberText(meanReward), shareText(success), ...passAtK.map(shareText)];
}

function failureLines(failures: readonly FailureCount[]): string[] {
  if (failures.length === 0) return [];
  const rows = failures.map(({ failureClass, phase, episodes, isScored, example }) => [
    failureClass,
    phase,
    formatCount(episodes),
    isScored ? "scored" : "voided",
    printable(example),
  ]);
  return ["", ...formatTable(["FAILURE", "PHASE", "EPISODES", "COUNTED AS", "FOR EXAMPLE"], rows)];
}

const CHANGED_SHOWN = 20;

/** Lines: one row a source with the paired difference, then the tasks that changed most. */
export function comparisonLines({ before, after, total, sources, changed, ...rest }: Comparison): string[] {
  const header = ["SOURCE", "TASKS", before, after, "DIFFERENCE", "MEAN REWARD", "BETTER", "WORSE", "SAME"];
  const ks = total.passAtK.map(({ k }) => `PASS@${k}`);
  const rows = sources.map((score) => pairedRow(score.source, score));
  const all = sources.length === 1 ? [] : [pairedRow("all", total)];
  return [
    ...formatTable([...header, ...ks], [...rows, ...all]),
    ...changedLines(changed),
    ...unpaired(before, rest.onlyBefore),
    ...unpaired(after, rest.onlyAfter),
  ];
}

function pairedRow(name: string, score: PairedScore): string[] {
  const shares = [score.before, score.after].map((value) => percentOf(value));
  const [success, reward] = [differenceText(score.success, 100), differenceText(score.meanReward, 1)];
  const counts = [score.better, score.worse, score.same].map(formatCount);
  const passes = score.passAtK.map((pass) => differenceText(pass, 100));
  return [name, formatCount(score.tasks), ...shares, success, reward, ...counts, ...passes];
}

function changedLines(changed: Comparison["changed"]): string[] {
  if (changed.length === 0) return [];
  const rows = changed
    .slice(0, CHANGED_SHOWN)
    .map(({ id, source, before, after }) => [printable(id), source, percentOf(before), percentOf(after)]);
  const more = changed.length > CHANGED_SHOWN ? [`… and ${changed.length - CHANGED_SHOWN} more (--json)`] : [];
  return ["", ...formatTable(["CHANGED TASK", "SOURCE", "BEFORE", "AFTER"], rows), ...more];
}

function unpaired(name: string, ids: readonly string[]): string[] {
  if (ids.length === 0) return [];
  const some = ids.slice(0, 5).map(printable).join(", ");
  return ["", `scored only in ${name}, and left out: ${ids.length} (${some}${ids.length > 5 ? ", …" : ""})`];
}

/** "41.2% [38.0, 44.5]". */
export function shareText({ value, low, high }: Estimate): string {
  if (value === null || low === null || high === null) return percentOf(value);
  return `${percentOf(value)} [${(100 * low).toFixed(1)}, ${(100 * high).toFixed(1)}]`;
}

/** "0.41 [0.3, 0.52]". */
export function numberText({ value, low, high }: Estimate): string {
  if (value === null) return "–";
  return low === null || high === null
    ? formatNumber(value)
    : `${formatNumber(value)} [${formatNumber(low)}, ${formatNumber(high)}]`;
}

/** "+3.1 [-1.0, 7.2]", times `scale`. */
export function differenceText({ value, low, high }: Estimate, scale: number): string {
  if (value === null) return "–";
  const digits = scale === 1 ? 3 : 1;
  const text = (number: number): string => (scale * number).toFixed(digits);
  const signed = `${value > 0 ? "+" : ""}${text(value)}`;
  return low === null || high === null ? signed : `${signed} [${text(low)}, ${text(high)}]`;
}

export function percentOf(share: number | null): string {
  return share === null ? "–" : `${(100 * share).toFixed(1)}%`;
}

function printable(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}

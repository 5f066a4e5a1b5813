// SPDX-License-Identifier: Apache-2.0
/** What a watched job looks like: as a screen that is redrawn, and as lines for logs. */
import type { Job, StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import { JobPhase, JobPhaseSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Duration } from "@bufbuild/protobuf/wkt";

import { renderCurve } from "./curve.ts";
import { enumShortName } from "./enum-names.ts";
import { formatBar, formatCount, formatNumber, formatSeconds } from "./format.ts";

export type Painter = (colour: "bold" | "dim" | "red" | "green" | "yellow" | "cyan", text: string) => string;

/** All that is known of a watched job. */
export interface WatchedJob {
  readonly job: Job | undefined;
  readonly steps: readonly StepRecord[];
  readonly validations: readonly ValidationResult[];
}

export function seconds(duration: Duration | undefined): number {
  return duration ? Number(duration.seconds) + duration.nanos / 1e9 : 0;
}

export function phaseName(job: Job | undefined): string {
  return enumShortName(JobPhaseSchema, job?.status?.phase ?? 0);
}

/** One step as one line. */
export function stepLine(step: StepRecord, steps: number): string {
  const number = `${String(step.step + 1).padStart(String(steps).length)}/${steps}`;
  const nothing = step.episodes === 0;
  const reward = nothing ? NONE : metric(step, "reward/mean");
  const loss = nothing ? NONE : metric(step, "loss");
  const parts = [`step ${number}`, reward && `reward ${reward}`, loss && `loss ${loss}`];
  parts.push(nothing ? nothingText(step, "trained") : `${step.episodes} episodes`);
  if (step.voided > 0 && !nothing) parts.push(`${step.voided} voided`);
  return [...parts, timingText(step)].filter(Boolean).join("  ");
}

/** Stands for a number where there is none: 0 would be one. */
const NONE = "–";

/** "0 of 64 episodes scored; commonest: ENVIRONMENT step: … (64 times)" */
function nothingText(
  { voided, commonestFailure }: Pick<StepRecord, "voided" | "commonestFailure">,
  done: "trained" | "scored",
): string {
  return `0 of ${voided} episodes ${done}${commonestFailure === "" ? "" : `; commonest: ${commonestFailure}`}`;
}

/** One validation as one line. */
export function validationLine(result: ValidationResult): string {
  const head = `validation after step ${result.step}, ${result.variant}:`;
  const took = formatSeconds(seconds(result.duration));
  if (result.episodes === 0)
    return `${head} success ${NONE}  reward ${NONE}  (${nothingText(result, "scored")}, ${took})`;
  const voided = result.voided > 0 ? `, ${result.voided} voided` : "";
  const measured = Object.entries(result.metrics).sort(([a], [b]) => a.localeCompare(b));
  if (measured.length > 0) {
    const numbers = measured.map(([name, value]) => `${name} ${formatNumber(value)}`).join("  ");
    return `${head} ${numbers}  (${result.episodes} demonstrations${voided}, ${took})`;
  }
  const passes = passAtK(result).map(([k, value]) => `pass@${k} ${percent(value)}`);
  const scores = [
    `success ${percent(result.success)}`,
    `reward ${formatNumber(result.meanReward)}`,
    ...passes.slice(passes.length > 1 ? 0 : 1),
  ];
  return `${head} ${scores.join("  ")}  (${result.episodes} episodes${voided}, ${took})`;
}

export function passAtK(result: ValidationResult): [number, number][] {
  return Object.entries(result.passAtK)
    .map(([k, value]): [number, number] => [Number(k), value])
    .sort(([a], [b]) => a - b);
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

const CURVE_ROWS = 6;
const LABEL = 12;

/** The screen of a running job. */
export function watchScreen(watched: WatchedJob, columns: number, paint: Painter): string[] {
  const { job } = watched;
  if (!job) return [paint("dim", "waiting for the job …")];
  return [
    headline(job, paint),
    ...progressLines(watched, columns),
    ...bookLines(job),
    ...rewardLines(watched, columns, paint),
    ...watched.validations.slice(-3).map((result) => paint("cyan", validationLine(result))),
  ];
}

function headline(job: Job, paint: Painter): string {
  const phase = job.status?.phase;
  const colour =
    phase === JobPhase.FAILED || phase === JobPhase.CANCELLED
      ? "red"
      : phase === JobPhase.SUSPENDED
        ? "yellow"
        : "green";
  const why = [job.status?.reason, job.status?.message].filter(Boolean).join(": ");
  return `${paint("bold", job.spec?.name ?? "")}  ${paint(colour, phaseName(job))}  ${paint("dim", why)}`.trimEnd();
}

function progressLines({ job, steps }: WatchedJob, columns: number): string[] {
  const total = job?.spec?.loop?.steps ?? 0;
  const done = job?.status?.step ?? 0;
  if (total === 0) return [];
  const recent = steps.slice(-10);
  const pace = recent.reduce((sum, step) => sum + seconds(step.timing?.total), 0) / Math.max(1, recent.length);
  const left =
    pace > 0 && done < total ? `  ${formatSeconds(pace)}/step, about ${formatSeconds(pace * (total - done))} left` : "";
  const bar = formatBar(done / total, Math.max(10, Math.min(40, columns - LABEL - 45)));
  const last = steps.at(-1);
  const timing = last ? [label("last step") + timingText(last)] : [];
  return [`${label("steps")}▕${bar}▏ ${done}/${total}${left}`, ...timing];
}

function bookLines(job: Job): string[] {
  const counts = job.status?.episodes;
  if (!counts) return [];
  const { dispatched, trained, voided, baseline, inFlight } = counts;
  const books = [
    `dispatched ${formatCount(dispatched)}`,
    `trained ${formatCount(trained)}`,
    `voided ${formatCount(voided)}`,
    ...(baseline > 0n ? [`baseline ${formatCount(baseline)}`] : []),
    `in flight ${formatCount(inFlight)}`,
  ];
  const tokens = job.status?.tokensSampled ?? 0n;
  return [
    label("episodes") + books.join("  "),
    `${label("tokens")}${formatCount(tokens)} sampled, policy v${job.status?.policyVersion ?? 0n}`,
  ];
}

function rewardLines({ steps }: WatchedJob, columns: number, paint: Painter): string[] {
  const rewards = steps.map(({ episodes, metrics }) => (episodes === 0 ? NaN : (metrics["reward/mean"] ?? NaN)));
  const width = Math.max(10, Math.min(72, columns - 12));
  const curve = renderCurve(rewards, { columns: width, rows: CURVE_ROWS });
  if (curve.length === 0) return [];
  const last = rewards.findLast((reward) => Number.isFinite(reward)) ?? NaN;
  const margin = " ".repeat((curve[0] ?? "").indexOf("┤"));
  const axis = `${margin}└ step 1${String(rewards.length).padStart(width - " step 1".length)}`;
  const head = `${label("reward")}${paint("bold", formatNumber(last))} mean of the last step`;
  if (rewards.length < 2) return [head]; // of a job that is only looked at, the last step is known
  return [head, ...curve.map((line) => paint("green", line)), paint("dim", axis)];
}

/** "0.8s: sampling 0.3s, training 0.4s"; parts that took no time are left out. */
function timingText({ timing }: StepRecord): string {
  if (!timing) return "";
  const parts = (["sampling", "training", "syncing", "waiting", "validating"] as const)
    .filter((part) => seconds(timing[part]) >= 0.05)
    .map((part) => `${part} ${formatSeconds(seconds(timing[part]))}`);
  return `${formatSeconds(seconds(timing.total))}${parts.length > 0 ? `: ${parts.join(", ")}` : ""}`;
}

function metric(step: StepRecord, name: string): string | undefined {
  const value = step.metrics[name];
  return value === undefined ? undefined : formatNumber(value);
}

function label(text: string): string {
  return text.padEnd(LABEL);
}

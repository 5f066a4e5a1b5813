// SPDX-License-Identifier: Apache-2.0
import { type Duration, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Job, StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";

export interface Success {
  readonly greedy: number;
  readonly sampled: number;
}

export interface AuditCounts {
  readonly lost: number;
  readonly duplicated: number;
  readonly stale: number;
  readonly unlabelled: number;
}

export interface QuickstartResult {
  readonly seed: number;
  readonly maxPolicyLag: number;
  /** Share of held-out maps on which the goal was reached. */
  readonly heldOut: { readonly start: Success; readonly afterSft: Success; readonly afterGrpo: Success };
  /** Both jobs from start to end, without the time that nothing but held-out evaluation took. */
  readonly trainWallSeconds: number;
  /** Model, data and services, before the first job; installing packages is not counted. */
  readonly setupWallSeconds: number;
  /** Shares of trainWallSeconds. */
  readonly timeShare: Record<"sampling" | "training" | "syncing" | "waiting" | "other", number>;
  readonly steps: number;
  readonly episodes: number;
  readonly tokensSampled: number;
  /** The trainer's log-probabilities beside the engine's, over every trained episode; nats. */
  readonly logprobDiff: { readonly max: number; readonly episodesChecked: number; readonly episodesOver1e4: number };
  readonly audit: AuditCounts;
}

export interface FinishedJob {
  readonly job: Job;
  readonly steps: readonly StepRecord[];
  readonly audit: AuditCounts;
}

export function resultOf(
  sft: FinishedJob,
  grpo: FinishedJob,
  run: { seed: number; lag: number; setupWallSeconds: number },
): QuickstartResult {
  const jobs = [sft, grpo];
  const steps = jobs.flatMap((job) => job.steps);
  const trainWallSeconds = sum(jobs.map(trainSeconds));
  return {
    seed: run.seed,
    maxPolicyLag: run.lag,
    heldOut: {
      start: success(sft, 0),
      afterSft: success(sft, sft.steps.length),
      afterGrpo: success(grpo, grpo.steps.length),
    },
    trainWallSeconds: round(trainWallSeconds, 1),
    setupWallSeconds: round(run.setupWallSeconds, 1),
    timeShare: timeShare(steps, trainWallSeconds),
    steps: steps.length,
    episodes: sum(steps.map((step) => step.episodes)),
    tokensSampled: sum(steps.map((step) => Number(step.tokensSampled))),
    logprobDiff: logprobDiff(grpo.steps),
    audit: auditSum(jobs.map((job) => job.audit)),
  };
}

/** Of the validation after `step`. @throws Error if there was none. */
export function success({ job }: FinishedJob, step: number): Success {
  const of = (variant: string): number => {
    const result = job.status?.validations.find((v: ValidationResult) => v.step === step && v.variant === variant);
    if (!result) throw new Error(`job ${job.spec?.name} has no ${variant} validation of step ${step}`);
    return round(result.success, 3);
  };
  return { greedy: of("greedy"), sampled: of("sampled") };
}

/** A job's wall time without what evaluation alone took: waiting for it before a weight switch, and the one at the end. */
export function trainSeconds({ job, steps }: FinishedJob): number {
  const status = job.status;
  if (!status?.startedAt || !status.finishedAt) throw new Error(`job ${job.spec?.name} has no start or end`);
  const wall = (timestampMs(status.finishedAt) - timestampMs(status.startedAt)) / 1000;
  const last = status.validations.find((result) => result.step === steps.length);
  return wall - sum(steps.map((step) => seconds(step.timing?.validating))) - seconds(last?.duration);
}

function timeShare(steps: readonly StepRecord[], wall: number): QuickstartResult["timeShare"] {
  const share = (part: "sampling" | "training" | "syncing" | "waiting"): number =>
    round(sum(steps.map((step) => seconds(step.timing?.[part]))) / wall, 4);
  const known = {
    sampling: share("sampling"),
    training: share("training"),
    syncing: share("syncing"),
    waiting: share("waiting"),
  };
  return { ...known, other: round(1 - sum(Object.values(known)), 4) };
}

function logprobDiff(steps: readonly StepRecord[]): QuickstartResult["logprobDiff"] {
  const of = (name: string): number[] => steps.map((step) => step.metrics[name] ?? 0);
  return {
    max: Math.max(0, ...of("logprob_diff/max")),
    episodesChecked: sum(of("logprob_diff/episodes_checked")),
    episodesOver1e4: sum(of("logprob_diff/episodes_over_1e-4")),
  };
}

function auditSum(audits: readonly AuditCounts[]): AuditCounts {
  const of = (key: keyof AuditCounts): number => sum(audits.map((audit) => audit[key]));
  return { lost: of("lost"), duplicated: of("duplicated"), stale: of("stale"), unlabelled: of("unlabelled") };
}

function seconds(duration: Duration | undefined): number {
  return duration ? Number(duration.seconds) + duration.nanos / 1e9 : 0;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

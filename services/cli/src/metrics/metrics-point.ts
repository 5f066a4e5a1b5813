// SPDX-License-Identifier: Apache-2.0
/** A step or a validation as a list of numbers, each with its name (docs/metrics.md). */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";

import { seconds } from "../terminal/watch-view.ts";

export type Scalar = readonly [name: string, value: number];

export interface MetricsPoint {
  /** From 0. Of a validation: optimizer steps done before it. */
  readonly step: number;
  /** When it was finished. */
  readonly time: Date;
  /** Never empty. The first one's name tells points of the same step apart. */
  readonly scalars: readonly [Scalar, ...Scalar[]];
}

const TIMINGS = ["total", "sampling", "training", "syncing", "waiting", "validating"] as const;

export function stepPoint({
  step,
  policyVersion,
  tokensSampled,
  metrics,
  timing,
  finishedAt,
}: StepRecord): MetricsPoint {
  const timings = timing ? TIMINGS.map((part): Scalar => [`timing/${part}`, seconds(timing[part])]) : [];
  const counts: Scalar = ["tokens_sampled", Number(tokensSampled)];
  const scalars = [["policy_version", Number(policyVersion)], counts, ...Object.entries(metrics), ...timings] as const;
  return { step, time: dateOf(finishedAt), scalars };
}

/** Of a validation that scored nothing only the counts: 0 would be a score. */
export function validationPoint(result: ValidationResult): MetricsPoint {
  const { step, variant, tasks, episodes, voided, success, meanReward, passAtK, metrics } = result;
  const name = (metric: string): string => `validation/${variant}/${metric}`;
  const named = (values: Record<string, number>, prefix = ""): Scalar[] =>
    Object.entries(values).map(([metric, value]) => [name(prefix + metric), value]);
  const isPlayed = Object.keys(metrics).length === 0;
  const scores = { success, reward: meanReward };
  const scored = isPlayed ? [...named(scores), ...named(passAtK, "pass@")] : named(metrics);
  const counts = named({ tasks, voided, seconds: seconds(result.duration) });
  const first: Scalar = [name("episodes"), episodes];
  return { step, time: dateOf(result.finishedAt), scalars: [first, ...counts, ...(episodes > 0 ? scored : [])] };
}

/** For people's own tools: one flat document. */
export function pointDocument({ step, time, scalars }: MetricsPoint): Record<string, unknown> {
  return { step, time: time.toISOString(), ...Object.fromEntries(scalars) };
}

function dateOf(time: Timestamp | undefined): Date {
  return time ? timestampDate(time) : new Date(0);
}

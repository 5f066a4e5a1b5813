// SPDX-License-Identifier: Apache-2.0
import type { Stored } from "@whetstone/kube";
import type { TrainingJob, TrainingJobStatus } from "./schema.ts";
import type { JobFacts, RecordFacts } from "./facts.ts";

export interface Deadlines {
  /** The job has to end for this. */
  readonly passed:
    { readonly reason: "PreRunningDeadlineExceeded" | "ActiveDeadlineExceeded"; readonly message: string } | undefined;
  /** Until the next one passes. Undefined: none is ahead. */
  readonly nextMs: number | undefined;
}

export function deadlinesOf(
  { spec, metadata }: Stored<TrainingJob>,
  { nowMs }: JobFacts,
  record: RecordFacts,
): Deadlines {
  const { preRunningSeconds, activeSeconds } = spec.deadlines ?? {};
  const { startedAtMs } = record;
  const bound = startedAtMs === undefined ? preRunningSeconds : activeSeconds;
  if (bound === undefined) return { passed: undefined, nextMs: undefined };
  const fromMs = startedAtMs ?? Date.parse(metadata.creationTimestamp ?? "");
  const leftMs = fromMs + bound * 1000 - nowMs;
  if (leftMs > 0) return { passed: undefined, nextMs: leftMs };
  const isActive = startedAtMs !== undefined;
  const reason = isActive ? "ActiveDeadlineExceeded" : "PreRunningDeadlineExceeded";
  const message = isActive ? `It did not end within ${bound} s of its start.` : `It did not start within ${bound} s.`;
  return { passed: { reason, message }, nextMs: undefined };
}

/**
 * When a batch, a step or a validation was last finished, or the job was started. The object's own status is all the memory
 * there is: what it does not show yet has happened now.
 */
export function lastProgressMs({ status }: Stored<TrainingJob>, nowMs: number, record: RecordFacts): number {
  const then = Date.parse(status?.lastProgressTime ?? "");
  const isSame = status?.state === "Running" && mark(status) === mark(record);
  return isSame && Number.isFinite(then) ? then : nowMs;
}

type Marked = Pick<TrainingJobStatus, "step" | "policyVersion" | "validations" | "counts">;

function mark({ step = 0, policyVersion = 0, validations = 0, counts }: Marked): string {
  return [step, policyVersion, validations, counts?.trained ?? 0, counts?.voided ?? 0].join();
}

const NO_PROGRESS_SECONDS = 600;

/** Milliseconds until a running job counts as stuck. 0: it does. */
export function untilStuckMs(job: Stored<TrainingJob>, nowMs: number, record: RecordFacts): number {
  const bound = (job.spec.deadlines?.noProgressSeconds ?? NO_PROGRESS_SECONDS) * 1000;
  return Math.max(0, lastProgressMs(job, nowMs, record) + bound - nowMs);
}

// SPDX-License-Identifier: Apache-2.0
import {
  type DesiredState_End,
  type DesiredState_Suspend,
  type Job,
  JobPhase,
  type JobStatus,
} from "@whetstone/proto/jobs/v1/jobs";

/** Where a job stands and where it goes, from its phase and its desired state. */
export type JobState =
  /** It is started when its turn comes. */
  | { readonly kind: "queued" }
  | { readonly kind: "running" }
  /** It runs, and stops after its step. */
  | { readonly kind: "suspending"; readonly suspend: DesiredState_Suspend }
  /** It does not run, and is not to be started. */
  | { readonly kind: "suspended"; readonly suspend: DesiredState_Suspend }
  /** It was suspended, and may go back into the queue. */
  | { readonly kind: "resuming" }
  /** It has to end, whether or not it runs. */
  | { readonly kind: "ending"; readonly end: DesiredState_End }
  | { readonly kind: "ended" };

/** What scheduler, reconciler and orchestrators ask of a record. */
export function jobState(job: Pick<Job, "desiredState" | "status">): JobState {
  const phase = phaseOf(job);
  const runs = phase === JobPhase.RUNNING;
  const desired = job.desiredState?.desired;
  if (isFinished(phase)) return { kind: "ended" };
  if (desired?.case === "end") return { kind: "ending", end: desired.value };
  if (desired?.case === "suspend") return { kind: runs ? "suspending" : "suspended", suspend: desired.value };
  if (runs) return { kind: "running" };
  return { kind: phase === JobPhase.SUSPENDED ? "resuming" : "queued" };
}

export type PhaseChange = Pick<JobStatus, "phase" | "reason" | "message">;

/** What a job's status says once it has become what was desired. */
export function reached(desired: DesiredState_Suspend | DesiredState_End): PhaseChange {
  const { reason, message } = desired;
  return { phase: "outcome" in desired ? desired.outcome : JobPhase.SUSPENDED, reason, message };
}

/** A job that nobody has looked at yet waits for its turn. */
export function phaseOf({ status }: Pick<Job, "status">): JobPhase {
  return status?.phase || JobPhase.QUEUED;
}

export function isFinished(phase: JobPhase): boolean {
  return FINISHED.has(phase);
}

const FINISHED: ReadonlySet<JobPhase> = new Set([JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED]);

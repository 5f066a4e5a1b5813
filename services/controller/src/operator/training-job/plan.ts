// SPDX-License-Identifier: Apache-2.0
import { equals } from "@bufbuild/protobuf";
import type { Stored } from "@whetstone/kube";
import { DESIRED, isWanted, mayReplace } from "@whetstone/messaging/jobs";
import { type DesiredState, DesiredStateSchema } from "@whetstone/proto/jobs/v1/jobs";
import { JOB_FINALIZER, MANAGED_BY, type TrainingJob, type TrainingJobStatus } from "./schema.ts";
import type { Action, RecordUpdate } from "./action.ts";
import { type JobFacts, type RecordFacts, isEnded } from "./facts.ts";
import { type Deadlines, deadlinesOf, untilStuckMs } from "./deadlines.ts";
import { mayRun, needsRay, PARTS_MS, partsMs, runUnless, suspendReasonOf } from "./suspend.ts";
import { statusOf } from "./status.ts";
import { hasPods, hasRay, workloadActions } from "./workload.ts";

export interface JobPlan {
  readonly actions: readonly Action[];
  /** Undefined: leave it as it is. */
  readonly status: TrainingJobStatus | undefined;
  /** When time alone changes something. */
  readonly requeueAfterMs: number | undefined;
}

const NOTHING: JobPlan = { actions: [], status: undefined, requeueAfterMs: undefined };
/** What stands in a job's way, a CRD or a module, may come: nobody tells us. */
const RETRY_MS = 15_000;
/** What is missing for long is looked for less often: after a tenth of the object's age, at last every five minutes. */
const SELDOM_MS = 300_000;
/** Our copy of the object is older than the record: the newer one is on its way. */
const STALE_MS = 1_000;
/** Somebody else's pods start or end. */
const RAY_MS = 5_000;

/** Whether the job's text has to be looked at: nobody has, or somebody could not. */
export function needsIntake(job: Stored<TrainingJob>, record: RecordFacts | undefined): boolean {
  return isOurs(job) && !record && !job.metadata.deletionTimestamp && !isRefused(job);
}

/** What to do so that the world is as the object wants it, from what is. */
export function plan(job: Stored<TrainingJob>, facts: JobFacts): JobPlan {
  if (!isOurs(job)) return NOTHING;
  if (job.metadata.deletionTimestamp) return planDeletion(job, facts);
  const own = ownRecord(job, facts);
  if (!own) return planIntake(job, facts);
  return isEnded(own) ? planAfterwards(job, facts, own) : planRun(job, facts, own);
}

function isOurs({ spec }: TrainingJob): boolean {
  return (spec.managedBy ?? MANAGED_BY) === MANAGED_BY;
}

/** A text that was refused for itself stays so: it cannot be changed. */
function isRefused({ status }: TrainingJob): boolean {
  return status?.state === "Invalid";
}

/** A record of the same name may be another job's. */
function ownRecord(job: Stored<TrainingJob>, { record }: JobFacts): RecordFacts | undefined {
  return record?.uid === job.metadata.uid ? record : undefined;
}

function planIntake(job: Stored<TrainingJob>, facts: JobFacts): JobPlan {
  const status = statusOf(job, facts, undefined);
  if (isRefused(job)) return { actions: [], status, requeueAfterMs: ttlMs(job, facts) };
  const finalizer: Action[] = hasFinalizer(job) ? [] : [{ kind: "add-finalizer" }];
  if (facts.intake.kind !== "valid" || facts.record)
    return { actions: finalizer, status, requeueAfterMs: lookAgainMs(job, facts) };
  const update = updateOf(job, facts, undefined);
  const workload: Action[] = job.spec.queueName && !facts.workload ? [{ kind: "make-workload" }] : [];
  return { actions: [...finalizer, { kind: "admit", update }, ...workload], status, requeueAfterMs: undefined };
}

function lookAgainMs({ metadata }: Stored<TrainingJob>, { intake, nowMs, record }: JobFacts): number {
  if (intake.kind !== "missing" || record) return RETRY_MS;
  const ageMs = nowMs - Date.parse(metadata.creationTimestamp ?? "");
  return Math.min(SELDOM_MS, Math.max(RETRY_MS, Math.round(ageMs / 10) || 0));
}

function planRun(job: Stored<TrainingJob>, facts: JobFacts, record: RecordFacts): JobPlan {
  const status = statusOf(job, facts, record);
  const deadlines = deadlinesOf(job, facts, record);
  if (record.generation > (job.metadata.generation ?? 0)) return { actions: [], status, requeueAfterMs: STALE_MS };
  const update = updateOf(job, facts, record, deadlines);
  const actions: Action[] = hasFinalizer(job) ? [] : [{ kind: "add-finalizer" }];
  if (differs(update, record)) actions.push({ kind: "update", update });
  actions.push(...workloadActions(job, facts, record), ...rayActions(job, facts, record));
  return { actions, status, requeueAfterMs: soonest(deadlines.nextMs, ...looks(job, facts, record)) };
}

/** Ray clusters come and go unheard of. A running job's parts are looked at now and then, and once more when it would count as stuck. */
function looks(job: Stored<TrainingJob>, facts: JobFacts, record: RecordFacts): number[] {
  if (record.phase !== "RUNNING") return [...(needsRay(job) ? [RAY_MS] : []), ...partsMs(job, facts, record)];
  const stuckMs = untilStuckMs(job, facts.nowMs, record);
  const nextMs = needsRay(job) ? RAY_MS : RETRY_MS;
  return stuckMs > 0 ? [nextMs, stuckMs] : [nextMs];
}

/** Ray workers take nodes only while the job may run. */
function rayActions(job: TrainingJob, facts: JobFacts, { desired, phase }: RecordFacts): Action[] {
  if (!needsRay(job)) return [];
  const isNeeded = isWanted(desired) && mayRun(suspendReasonOf(job, facts));
  if (isNeeded) return facts.trainer ? [] : [{ kind: "make-ray-cluster" }];
  return facts.trainer && phase !== "RUNNING" ? [{ kind: "delete-ray-cluster" }] : [];
}

function planAfterwards(job: Stored<TrainingJob>, facts: JobFacts, record: RecordFacts): JobPlan {
  const status = statusOf(job, facts, record);
  const left = ttlMs(job, facts, record.finishedAtMs);
  // Its quota is free once its pods are gone.
  if (hasRay(job, facts)) return { actions: [{ kind: "delete-ray-cluster" }], status, requeueAfterMs: RAY_MS };
  const actions: Action[] = [];
  const holdsQuota = job.spec.queueName && facts.workload && !facts.workload.finished;
  if (holdsQuota && hasPods(job, facts)) return { actions, status, requeueAfterMs: PARTS_MS.next };
  if (holdsQuota)
    actions.push({
      kind: "finish-workload",
      succeeded: record.phase === "SUCCEEDED",
      message: record.message || record.reason,
    });
  if (left === 0) actions.push({ kind: "delete" });
  return { actions, status, requeueAfterMs: left === 0 ? undefined : left };
}

/** Cancelled, ended, forgotten, and only then gone. */
function planDeletion(job: Stored<TrainingJob>, facts: JobFacts): JobPlan {
  if (!hasFinalizer(job)) return NOTHING;
  const record = ownRecord(job, facts);
  const status = statusOf(job, facts, record);
  if (record && !isEnded(record)) {
    const { generation = 0 } = job.metadata;
    const update: RecordUpdate = { desired: DESIRED.cancelByDeletion(), generation, takeSpec: false };
    return { actions: differs(update, record) ? [{ kind: "update", update }] : [], status, requeueAfterMs: RETRY_MS };
  }
  const gone: Action = { kind: "remove-finalizer" };
  // A record of another uid belongs to another object: nothing of it is ours to delete.
  if (facts.record && !record) return { actions: [gone], status: undefined, requeueAfterMs: undefined };
  const purge: Action = { kind: "purge", runFolder: job.spec.cleanup?.runFolder === "Delete" };
  return { actions: [purge, gone], status: undefined, requeueAfterMs: undefined };
}

function updateOf(
  job: Stored<TrainingJob>,
  facts: JobFacts,
  record: RecordFacts | undefined,
  deadlines?: Deadlines,
): RecordUpdate {
  const isChanged = record !== undefined && facts.isSpecChanged;
  const isRunning = record?.phase === "RUNNING";
  const mustWait = suspendReasonOf(job, facts) || (isChanged && isRunning ? "Updating" : "");
  return {
    desired: desiredState(job, deadlines, mustWait),
    generation: job.metadata.generation ?? 0,
    takeSpec: isChanged && !isRunning,
  };
}

/** What the user says comes before what a deadline says, and that before a suspension. @param mustWait  why; empty: it need not */
function desiredState({ spec }: TrainingJob, deadlines: Deadlines | undefined, mustWait: string): DesiredState {
  if (spec.cancel) return DESIRED.cancelByUser();
  if (deadlines?.passed) return DESIRED.failByController(deadlines.passed.reason, deadlines.passed.message);
  return spec.suspend ? DESIRED.suspendByUser() : runUnless(mustWait);
}

function differs({ desired, generation, takeSpec }: RecordUpdate, record: RecordFacts): boolean {
  const hasChanged = mayReplace(record.desired, desired) && !equals(DesiredStateSchema, desired, record.desired);
  return hasChanged || takeSpec || generation !== record.generation;
}

/** 0: now. Undefined: never. */
function ttlMs({ spec }: TrainingJob, { nowMs }: JobFacts, finishedAtMs?: number): number | undefined {
  const ttl = spec.cleanup?.ttlSecondsAfterFinished;
  if (ttl === undefined || finishedAtMs === undefined) return undefined;
  return Math.max(0, finishedAtMs + ttl * 1000 - nowMs);
}

function hasFinalizer({ metadata }: Stored<TrainingJob>): boolean {
  return metadata.finalizers?.includes(JOB_FINALIZER) === true;
}

function soonest(...times: (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length > 0 ? Math.min(...known) : undefined;
}

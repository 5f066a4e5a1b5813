// SPDX-License-Identifier: Apache-2.0
import type { Stored } from "@whetstone/kube";
import { JOB_FINALIZER, MANAGED_BY, type TrainingJob, type TrainingJobSpec, type TrainingJobStatus } from "./schema.ts";
import type { Action, RecordOrder } from "./action.ts";
import { type JobFacts, type RecordFacts, isEnded } from "./facts.ts";
import { type Deadlines, deadlinesOf, untilStuckMs } from "./deadlines.ts";
import { DELETED } from "../../jobs/job-phase.ts";
import { holdOf, mayRun, needsRay, PARTS_MS, partsMs } from "./hold.ts";
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
  const order = orderOf(job, facts, undefined);
  const workload: Action[] = job.spec.queueName && !facts.workload ? [{ kind: "make-workload" }] : [];
  return { actions: [...finalizer, { kind: "admit", order }, ...workload], status, requeueAfterMs: undefined };
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
  const order = orderOf(job, facts, record, deadlines);
  const actions: Action[] = hasFinalizer(job) ? [] : [{ kind: "add-finalizer" }];
  if (differs(order, record)) actions.push({ kind: "order", order });
  actions.push(...workloadActions(job, facts, record), ...rayActions(job, facts, record));
  return { actions, status, requeueAfterMs: soonest(deadlines.nextMs, ...looks(job, facts, record)) };
}

/** Ray clusters come and go unheard of. A running job's parts are looked at now and then, and once more when it would count as stuck. */
function looks(job: Stored<TrainingJob>, facts: JobFacts, record: RecordFacts): number[] {
  if (record.phase !== "RUNNING") return [...(needsRay(job) ? [RAY_MS] : []), ...partsMs(job, facts, record)];
  const stuckMs = untilStuckMs(job, facts.nowMs, record);
  return stuckMs > 0 ? [RETRY_MS, stuckMs] : [RETRY_MS];
}

/** Ray workers take nodes only while the job may run. */
function rayActions(job: TrainingJob, facts: JobFacts, { wish, phase }: RecordFacts): Action[] {
  if (!needsRay(job)) return [];
  const hold = holdOf(job, facts);
  const isWanted = wish === "run" && mayRun(hold);
  if (isWanted) return facts.trainer ? [] : [{ kind: "make-ray-cluster" }];
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
    const order: RecordOrder = {
      ...{ wish: "cancel", holdReason: "", endReason: DELETED, endMessage: "The object was deleted." },
      generation: job.metadata.generation ?? 0,
      takeSpec: false,
    };
    return { actions: differs(order, record) ? [{ kind: "order", order }] : [], status, requeueAfterMs: RETRY_MS };
  }
  const gone: Action = { kind: "remove-finalizer" };
  // A record of another uid belongs to another object: nothing of it is ours to delete.
  if (facts.record && !record) return { actions: [gone], status: undefined, requeueAfterMs: undefined };
  const purge: Action = { kind: "purge", runFolder: job.spec.cleanup?.runFolder === "Delete" };
  return { actions: [purge, gone], status: undefined, requeueAfterMs: undefined };
}

function orderOf(
  job: Stored<TrainingJob>,
  facts: JobFacts,
  record: RecordFacts | undefined,
  deadlines?: Deadlines,
): RecordOrder {
  const isChanged = record !== undefined && facts.isSpecChanged;
  const isRunning = record?.phase === "RUNNING";
  return {
    ...endOf(job.spec, deadlines),
    holdReason: holdOf(job, facts) || (isChanged && isRunning ? "Updating" : ""),
    generation: job.metadata.generation ?? 0,
    takeSpec: isChanged && !isRunning,
  };
}

/** What the user says comes before what a deadline says. */
function endOf(
  { cancel, suspend }: TrainingJobSpec,
  deadlines: Deadlines | undefined,
): Pick<RecordOrder, "wish" | "endReason" | "endMessage"> {
  const user = { endReason: "", endMessage: "" };
  if (cancel) return { wish: "cancel", ...user };
  const passed = deadlines?.passed;
  if (passed) return { wish: "cancel", endReason: passed.reason, endMessage: passed.message };
  return { wish: suspend ? "suspend" : "run", ...user };
}

function differs(order: RecordOrder, record: RecordFacts): boolean {
  const { wish, holdReason, endReason, generation, takeSpec } = order;
  // What was cancelled, by a user or by a deadline, is never revoked.
  const isWishNews = record.wish !== "cancel" && wish !== record.wish;
  const isHeldNews = record.wish !== "cancel" && holdReason !== record.holdReason;
  const isDeletion = endReason === DELETED && record.endReason !== DELETED;
  return isWishNews || isHeldNews || isDeletion || takeSpec || generation !== record.generation;
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

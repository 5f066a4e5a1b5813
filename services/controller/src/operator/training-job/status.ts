// SPDX-License-Identifier: Apache-2.0
import type { Stored } from "@whetstone/kube";
import { isWanted } from "@whetstone/messaging/jobs";
import type { TrainingJobState, TrainingJob, TrainingJobStatus } from "./schema.ts";
import { conditionsOf } from "./conditions.ts";
import { lastProgressMs } from "./deadlines.ts";
import { mayRun, suspendReasonOf } from "./suspend.ts";
import { intakeMessage, isEnded, type JobFacts, lagOf, type RecordFacts } from "./facts.ts";

const MESSAGE_CHARACTERS = 2000;

/** The whole status, from the record and what was looked at. @param record  the job's own; undefined: not accepted yet */
export function statusOf(
  job: Stored<TrainingJob>,
  facts: JobFacts,
  record: RecordFacts | undefined,
): TrainingJobStatus {
  const conditions = conditionsOf(job, facts, record);
  const { generation } = job.metadata;
  return {
    ...(generation !== undefined && { observedGeneration: generation }),
    state: stateOf(job, facts, record),
    message: messageOf(facts, record, job).slice(0, MESSAGE_CHARACTERS),
    conditions,
    ...(record && progressOf(job, facts, record)),
    ...(facts.workload && { workload: facts.workload.name }),
  };
}

const STATES: Record<RecordFacts["phase"], TrainingJobState> = {
  QUEUED: "Queued",
  RUNNING: "Running",
  SUSPENDED: "Suspended",
  SUCCEEDED: "Succeeded",
  FAILED: "Failed",
  CANCELLED: "Cancelled",
};

function stateOf({ status }: TrainingJob, { intake }: JobFacts, record: RecordFacts | undefined): TrainingJobState {
  if (record) return STATES[record.phase];
  return intake.kind === "invalid" || status?.state === "Invalid" ? "Invalid" : "Pending";
}

function messageOf(facts: JobFacts, record: RecordFacts | undefined, job: TrainingJob): string {
  if (record) return refusalMessage(facts, record) ?? suspendMessage(job, facts, record) ?? withNotices(facts, record);
  return intakeMessage(facts) || (facts.intake.kind === "unknown" ? (job.status?.message ?? "") : "");
}

/** The record cannot say it: it is in NATS. */
function refusalMessage({ natsRefusal }: JobFacts, record: RecordFacts): string | undefined {
  return isEnded(record) ? undefined : natsRefusal;
}

function withNotices({ notices = [] }: JobFacts, record: RecordFacts): string {
  if (record.phase !== "RUNNING") return record.message;
  const others = notices.filter((notice) => !record.message.includes(notice));
  return [record.message, ...others].filter(Boolean).join(" ");
}

function suspendMessage(job: TrainingJob, facts: JobFacts, record: RecordFacts): string | undefined {
  if (isEnded(record)) return undefined;
  const { workload, parts } = facts;
  const reason = suspendReasonOf(job, facts);
  const starts = isWanted(record.desired) && parts?.missing !== undefined && mayRun(reason);
  if (starts) return `Being started: ${parts.missing}.`;
  return reason ? workload?.message : undefined;
}

function progressOf(job: Stored<TrainingJob>, facts: JobFacts, record: RecordFacts): TrainingJobStatus {
  const { step, steps, epoch, policyVersion, restarts, counts, modelPath, validations } = record;
  const ended = isEnded(record);
  const lag = ended ? undefined : lagOf(facts, record);
  const environments = ended ? undefined : facts.environments;
  const checkpoint = facts.checkpoint ?? job.status?.lastCheckpoint;
  return {
    ...{ epoch, step, policyVersion, restarts, validations },
    ...{ progress: `${step}/${steps}`, counts: { ...counts } },
    ...(lag !== undefined && { lag }),
    ...(environments && { environments: `${environments.ready}/${environments.wanted}` }),
    ...(record.startedAtMs !== undefined && { startTime: timeOf(record.startedAtMs) }),
    ...(record.finishedAtMs !== undefined && { completionTime: timeOf(record.finishedAtMs) }),
    ...(progressTime(job, facts, record) && { lastProgressTime: progressTime(job, facts, record) }),
    ...(modelPath && { modelPath }),
    ...(checkpoint && { lastCheckpoint: { ...checkpoint } }),
  };
}

function progressTime(job: Stored<TrainingJob>, { nowMs }: JobFacts, record: RecordFacts): string {
  if (record.phase !== "RUNNING") return job.status?.lastProgressTime ?? "";
  return timeOf(lastProgressMs(job, nowMs, record));
}

/** As Kubernetes writes times: whole seconds. */
function timeOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

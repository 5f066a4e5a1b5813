// SPDX-License-Identifier: Apache-2.0
import { type ConditionChange, datedConditions, type Stored } from "@whetstone/kube";
import { waitsFor } from "@whetstone/messaging/jobs";
import { type ConditionType, CONDITIONS, type Reason, type TrainingJob, type TrainingJobStatus } from "./schema.ts";
import { untilStuckMs } from "./deadlines.ts";
import { intakeMessage, isEnded, type JobFacts, lagOf, type Readiness, type RecordFacts } from "./facts.ts";
import { messageOf } from "./messages.ts";

type Verdict = Omit<ConditionChange<ConditionType, Reason>, "type">;
const unknown = (reason: Reason): Verdict => ({ status: "Unknown", reason });

/** All conditions of the kind, each True, False or Unknown. */
export function conditionsOf(
  job: Stored<TrainingJob>,
  facts: JobFacts,
  record: RecordFacts | undefined,
): NonNullable<TrainingJobStatus["conditions"]> {
  const verdicts = {
    ...intakeVerdicts(job, facts, record),
    ...runVerdicts(job, facts, record),
    ...endVerdicts(job, facts, record),
  };
  const changes = CONDITIONS.map((type) => {
    const { message, ...verdict } = verdicts[type];
    return { type, ...verdict, message: message || messageOf(type, verdict.reason) };
  });
  return datedConditions(job, changes, facts.nowMs);
}

type Verdicts<T extends ConditionType> = Record<T, Verdict>;

function intakeVerdicts(
  job: TrainingJob,
  facts: JobFacts,
  record: RecordFacts | undefined,
): Verdicts<"Accepted" | "Admitted"> {
  return { Accepted: accepted(job, facts, record), Admitted: admitted(job, facts, record) };
}

const REFUSALS: Partial<Record<JobFacts["intake"]["kind"], Reason>> = {
  invalid: "InvalidSpec",
  missing: "DependencyMissing",
  "module-missing": "ModuleMissing",
};

function accepted({ status }: TrainingJob, facts: JobFacts, record: RecordFacts | undefined): Verdict {
  if (record) return { status: true, reason: "Accepted" };
  const message = intakeMessage(facts);
  if (facts.record) return { status: false, reason: "NameTaken", message };
  const { intake } = facts;
  const refusal = REFUSALS[intake.kind];
  if (refusal) return { status: false, reason: refusal, message };
  switch (intake.kind) {
    case "valid":
      return { status: true, reason: "Accepted" };
    case "unsupported":
      return { status: false, reason: intake.reason, message };
    case "unavailable":
      return { status: "Unknown", reason: "CannotCheck", message };
    default:
      return status?.state === "Invalid"
        ? { status: false, reason: "InvalidSpec", message: status.message ?? "" }
        : unknown("Pending");
  }
}

function admitted({ spec }: TrainingJob, { workload }: JobFacts, record: RecordFacts | undefined): Verdict {
  if (!record) return unknown("Pending");
  if (!spec.queueName) return { status: true, reason: "NotQueued" };
  if (isEnded(record)) return { status: false, reason: "Ended" };
  const message = workload?.message ?? "";
  if (workload?.evicted) return { status: false, reason: "Evicted", message };
  return workload?.admitted
    ? { status: true, reason: "QuotaReserved" }
    : { status: false, reason: "WaitingForQuota", message };
}

function runVerdicts(
  job: Stored<TrainingJob>,
  facts: JobFacts,
  record: RecordFacts | undefined,
): Verdicts<"TrainerReady" | "InferenceReady" | "EnvironmentsReady" | "Progressing" | "WeightsInSync"> {
  if (record?.phase !== "RUNNING") {
    const idle = unknown(record && isEnded(record) ? "Ended" : record ? "NotRunning" : "Pending");
    const [TrainerReady, InferenceReady, EnvironmentsReady, WeightsInSync] = [idle, idle, idle, idle];
    return { TrainerReady, InferenceReady, EnvironmentsReady, WeightsInSync, Progressing: { ...idle, status: false } };
  }
  return {
    TrainerReady: record.steps === 0 ? { status: true, reason: "NotNeeded" } : trainerReady(facts.trainer, record),
    InferenceReady: ready(facts.engines),
    EnvironmentsReady:
      job.spec.job["environment"] === undefined ? { status: true, reason: "NotNeeded" } : ready(facts.environments),
    Progressing: progressing(job, facts, record),
    WeightsInSync: inSync(facts, record),
  };
}

/** Its pods may be there again before what was lost with one has been made good. */
function trainerReady(trainer: Readiness | undefined, { reason, message }: RecordFacts): Verdict {
  const found = ready(trainer);
  return found.status === true && reason === "RankLost" ? { status: false, reason, message } : found;
}

/** One of each is enough to go on. */
function ready(parts: Readiness | undefined): Verdict {
  if (!parts) return unknown("NotReady");
  const message = parts.message ?? `${parts.ready} of ${parts.wanted} ready`;
  return parts.ready > 0
    ? { status: true, reason: "Ready" }
    : { status: false, reason: parts.reason ?? "NotReady", message };
}

function progressing(job: Stored<TrainingJob>, { nowMs, natsRefusal }: JobFacts, record: RecordFacts): Verdict {
  if (natsRefusal) return { status: false, reason: "NatsRefusesWrites", message: natsRefusal };
  if (untilStuckMs(job, nowMs, record) > 0) return { status: true, reason: "Progressing" };
  const seconds = job.spec.deadlines?.noProgressSeconds ?? 600;
  const message = `No batch, step or validation was finished for ${seconds} s: see the other conditions, and the logs of the trainer.`;
  return { status: false, reason: "NoProgress", message };
}

function inSync(facts: JobFacts, record: RecordFacts): Verdict {
  const lag = lagOf(facts, record);
  if (lag === undefined) return { status: false, reason: "Syncing", message: "No engine serves this job yet." };
  if (lag === 0) return { status: true, reason: "InSync" };
  return { status: false, reason: "Syncing", message: `The slowest engine is ${lag} versions behind.` };
}

function endVerdicts(
  job: Stored<TrainingJob>,
  facts: JobFacts,
  record: RecordFacts | undefined,
): Verdicts<"Suspended" | "Restarting" | "Complete" | "Failed"> {
  const rest: Verdict = { status: false, reason: restReason(record) };
  const none = { Suspended: rest, Restarting: rest, Complete: rest, Failed: rest };
  if (!record) return isInvalid(job, facts) ? { ...none, Failed: invalid(job, facts) } : none;
  const { phase, reason, message } = record;
  if (phase === "SUSPENDED") return { ...none, Suspended: { status: true, reason: suspendReason(record) } };
  if (phase === "SUCCEEDED") return { ...none, Complete: { status: true, reason: "Finished" } };
  if (phase === "QUEUED" && reason === "Restarting") return { ...none, Restarting: { status: true, reason, message } };
  return { ...none, Failed: failed(record, rest) };
}

function isInvalid({ status }: TrainingJob, { intake }: JobFacts): boolean {
  return intake.kind === "invalid" || status?.state === "Invalid";
}

function invalid({ status }: TrainingJob, facts: JobFacts): Verdict {
  return { status: true, reason: "InvalidSpec", message: intakeMessage(facts) || (status?.message ?? "") };
}

function restReason(record: RecordFacts | undefined): Reason {
  if (!record) return "Pending";
  if (record.phase === "RUNNING") return "Running";
  return isEnded(record) ? "Ended" : "NotRunning";
}

/** One that its user has resumed may have to wait for something else by now. */
function suspendReason({ desired, reason }: RecordFacts): Reason {
  const waits: readonly Reason[] = ["Updating", "Evicted", "WaitingForQuota", "WaitingForTrainer", "WaitingForEngines"];
  const now = waitsFor(desired) || reason;
  return waits.find((wait) => wait === now) ?? "SuspendedByUser";
}

const FAILURES: readonly string[] = ["DeadlineExceeded", "PreRunningDeadlineExceeded", "ActiveDeadlineExceeded"];

function failed(record: RecordFacts, rest: Verdict): Verdict {
  if (record.phase === "CANCELLED") return { status: true, reason: "Cancelled", message: record.message };
  if (record.phase !== "FAILED") return rest;
  const reason = FAILURES.includes(record.reason) ? (record.reason as Reason) : "JobFailed";
  return { status: true, reason, message: `${record.reason}: ${record.message}` };
}

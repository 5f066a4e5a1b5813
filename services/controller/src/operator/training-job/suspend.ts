// SPDX-License-Identifier: Apache-2.0
import type { Stored } from "@whetstone/kube";
import { DESIRED, isWanted } from "@whetstone/messaging/jobs";
import type { DesiredState } from "@whetstone/proto/jobs/v1/jobs";
import type { TrainingJob } from "./schema.ts";
import type { JobFacts, RecordFacts } from "./facts.ts";

/** How often parts that come and go are looked at. */
export const PARTS_MS = { next: 1_000, later: 5_000 } as const;

type Waits = Pick<JobFacts, "workload" | "trainer" | "parts"> & Partial<Pick<JobFacts, "record">>;

/** Why a job is suspended though its user wants it to run, one word. Empty: it need not be. */
export function suspendReasonOf(job: TrainingJob, facts: Waits): string {
  const { queueName } = job.spec;
  if (queueName && facts.workload?.evicted) return "Evicted";
  if (queueName && !facts.workload?.admitted) return "WaitingForQuota";
  return partsReason(job, facts);
}

/** A job that runs does not stop for a rank or a head that is lost: its step is done again once they are back. */
function partsReason(job: TrainingJob, { trainer, parts, record }: Waits): string {
  const lacksRay = needsRay(job) && !trainer?.ready && record?.phase !== "RUNNING";
  if (lacksRay || parts?.missing === "trainer") return "WaitingForTrainer";
  return parts?.missing === "engines" ? "WaitingForEngines" : "";
}

/** What becomes of a job before anything was looked at. @param onDemand  engines and trainer come only when a job needs them */
export function firstState(job: TrainingJob, onDemand: boolean): DesiredState {
  if (job.spec.cancel) return DESIRED.cancelByUser();
  if (job.spec.suspend) return DESIRED.suspendByUser();
  const parts = onDemand ? ({ missing: "engines", pods: 0, neededBy: undefined } as const) : undefined;
  return runUnless(suspendReasonOf(job, { workload: undefined, trainer: undefined, parts }));
}

/** @param reason  why it has to wait; empty: it need not */
export function runUnless(reason: string): DesiredState {
  return reason === "" ? DESIRED.run() : DESIRED.suspendByController(reason);
}

/** It may run as soon as what it waits for is there. */
export function mayRun(reason: string): boolean {
  return ["", "WaitingForEngines", "WaitingForTrainer"].includes(reason);
}

/** Until its parts have come, so that it may run, or have gone, so that its quota is free. The next in turn looks most often. */
export function partsMs(job: Stored<TrainingJob>, facts: JobFacts, { desired }: RecordFacts): number[] {
  const { parts, workload } = facts;
  if (!parts) return [];
  const comes = isWanted(desired) && parts.missing !== undefined && mayRun(suspendReasonOf(job, facts));
  const goes = workload?.reserved === true && (!isWanted(desired) || !workload.admitted);
  if (!comes && !goes) return [];
  const isNext = parts.neededBy === undefined || parts.neededBy === job.metadata.name;
  return [goes || isNext ? PARTS_MS.next : PARTS_MS.later];
}

/** Its trainer is a RayCluster of its own. */
export function needsRay({ spec }: TrainingJob): boolean {
  return spec.trainer?.backend === "verl";
}

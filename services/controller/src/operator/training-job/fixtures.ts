// SPDX-License-Identifier: Apache-2.0
// Jobs and facts for the tests of plans.
import type { Stored } from "@whetstone/kube";
import { DESIRED } from "@whetstone/messaging/jobs";
import { JOB_FINALIZER, type TrainingJob, type TrainingJobSpec } from "./schema.ts";
import type { JobFacts, RecordFacts, WorkloadFacts } from "./facts.ts";
import type { JobPlan } from "./plan.ts";

export const NOW = Date.parse("2026-01-01T12:00:00Z");
export const seconds = (count: number): number => NOW - count * 1000;

interface Parts {
  readonly spec?: Partial<TrainingJobSpec>;
  readonly meta?: Partial<Stored<TrainingJob>["metadata"]>;
  readonly status?: TrainingJob["status"];
}

export function job({ spec, meta, status }: Parts = {}): Stored<TrainingJob> {
  return {
    metadata: {
      ...{ name: "fl", uid: "u1", resourceVersion: "1", generation: 2, finalizers: [JOB_FINALIZER] },
      creationTimestamp: new Date(seconds(100)).toISOString(),
      ...meta,
    },
    spec: { job: { environment: { kind: "frozenlake" }, loop: { steps: 60 } }, ...spec },
    ...(status && { status }),
  };
}

export const counts = { dispatched: 0, trained: 0, voided: 0, baseline: 0, inFlight: 0 };
export const record = (over: Partial<RecordFacts> = {}): RecordFacts => ({
  ...{ uid: "u1", generation: 2, phase: "QUEUED", reason: "", message: "" },
  ...{ desired: DESIRED.run(), steps: 60, step: 3, policyVersion: 3, epoch: 1, restarts: 0, counts },
  ...{ validations: 0, modelPath: "", createdAtMs: seconds(100), startedAtMs: undefined, finishedAtMs: undefined },
  ...over,
});

/** It has to wait. */
export const waiting = (reason: string, over: Partial<RecordFacts> = {}): RecordFacts =>
  record({ desired: DESIRED.suspendByController(reason), ...over });

export const running = (over: Partial<RecordFacts> = {}): RecordFacts =>
  record({ phase: "RUNNING", startedAtMs: seconds(50), ...over });
export const ended = (phase: RecordFacts["phase"], over: Partial<RecordFacts> = {}): RecordFacts =>
  record({ phase, startedAtMs: seconds(50), finishedAtMs: seconds(10), ...over });

export const facts = (over: Partial<JobFacts> = {}): JobFacts => ({
  ...{ nowMs: NOW, record: undefined, isSpecChanged: false, intake: { kind: "unknown" }, workload: undefined },
  ...{ trainer: { ready: 1, wanted: 1 }, environments: { ready: 2, wanted: 4 } },
  ...{ engines: { ready: 1, wanted: 1, oldestVersion: 2 }, checkpoint: undefined, parts: undefined },
  ...over,
});

export const workload = (over: Partial<WorkloadFacts> = {}): WorkloadFacts => ({
  ...{ name: "fl-w", admitted: false, reserved: false, evicted: undefined, finished: false, message: "waits" },
  ...{ podsReady: undefined, active: true, suspended: false },
  ...over,
});
export const given = workload({ admitted: true, reserved: true });
export const started = { ready: true, reason: "Started" };
export const queued: Partial<TrainingJobSpec> = { queueName: "gpu", podSets: [{ name: "all", template: {} }] };
export const deleted = { deletionTimestamp: "2026-01-01T11:59:59Z" };

export const kinds = (made: JobPlan): string[] => made.actions.map(({ kind }) => kind);
export const condition = (made: JobPlan, type: string): string => {
  const found = made.status?.conditions?.find((one) => one.type === type);
  return `${found?.status}/${found?.reason}`;
};
export const update = (made: JobPlan) =>
  made.actions.find((action) => action.kind === "update" || action.kind === "admit")?.update;

// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import {
  type Condition,
  type Draft,
  findCondition,
  isTrue,
  type KubeObject,
  resource,
  type Stored,
} from "@whetstone/kube";
import { TRAINING_JOBS, type TrainingJob } from "../training-job/schema.ts";
import type { WorkloadFacts } from "../training-job/facts.ts";

/** Kueue's gang: what a job reserves, and whether it may run. */
export interface Workload extends KubeObject {
  spec?: JsonObject & { active?: boolean; queueName?: string; podSets?: readonly WorkloadPodSet[] };
  status?: { conditions?: Condition[]; admission?: Admission; admissionChecks?: readonly AdmissionCheck[] };
}

export interface WorkloadPodSet {
  readonly name: string;
  readonly topologyRequest?: { readonly required?: string; readonly preferred?: string };
}

/** What Kueue gave: of each pod set, which flavor of each resource. */
export interface Admission {
  readonly clusterQueue?: string;
  readonly podSetAssignments?: readonly {
    readonly name: string;
    readonly flavors?: Readonly<Record<string, string>>;
    readonly topologyAssignment?: object;
  }[];
}

/** What somebody who was asked before the admission wants of pods, e.g. of those for which nodes were made. */
export interface AdmissionCheck {
  readonly podSetUpdates?: readonly ({ readonly name: string } & Partial<PodMarks>)[];
}

/** What is put on a pod so that it goes where its quota is. */
export interface PodMarks {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly tolerations: readonly JsonObject[];
}

/** Kueue 0.15 and newer. */
export const WORKLOADS = resource<Workload>("kueue.x-k8s.io/v1beta2", "Workload", "workloads");

export interface PriorityClass extends KubeObject {
  value?: number;
}

export const PRIORITY_CLASSES = resource<PriorityClass>(
  WORKLOADS.apiVersion,
  "WorkloadPriorityClass",
  "workloadpriorityclasses",
  {
    namespaced: false,
  },
);

export interface ResourceFlavor extends KubeObject {
  spec?: { readonly nodeLabels?: Readonly<Record<string, string>>; readonly tolerations?: readonly JsonObject[] };
}

export const RESOURCE_FLAVORS = resource<ResourceFlavor>(WORKLOADS.apiVersion, "ResourceFlavor", "resourceflavors", {
  namespaced: false,
});

export const JOB_LABEL = "whetstone.dev/job";
/** On a Workload that is inactive because its job is suspended: one that somebody else made so is left alone. */
const SUSPENDED = "whetstone.dev/suspended";

/** One for each object, so that making it twice is one: names are unique in time by the uid. */
export function workloadName({ metadata: { name, uid } }: Stored<TrainingJob>): string {
  return `trainingjob-${name}-${uid.slice(0, 5)}`;
}

/** @param priority  of the job's class; Kueue wants the number beside the name */
export function workloadOf(job: Stored<TrainingJob>, priority: number | undefined): Draft<Workload> {
  const { name, uid } = job.metadata;
  const { queueName = "", priorityClassName, podSets = [], suspend = false } = job.spec;
  const { apiVersion, kind } = TRAINING_JOBS;
  const priorityClassRef = { group: "kueue.x-k8s.io", kind: PRIORITY_CLASSES.kind, name: priorityClassName ?? "" };
  return {
    metadata: {
      name: workloadName(job),
      labels: { "app.kubernetes.io/managed-by": "whetstone", [JOB_LABEL]: name, "kueue.x-k8s.io/job-uid": uid },
      ...(suspend && { annotations: { [SUSPENDED]: "true" } }),
      ownerReferences: [{ apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      queueName,
      ...(suspend && { active: false }),
      podSets: podSets.map(({ count = 1, topologyRequest, ...podSet }) => ({
        ...podSet,
        ...(topologyRequest && { topologyRequest }),
        count,
      })),
      ...(priorityClassName && { priorityClassRef, priority: priority ?? 0 }),
    },
  };
}

/** A suspended job needs no quota: its Workload leaves the queue, and is queued again when the job goes on. */
export function activity(active: boolean): object {
  return { metadata: { annotations: { [SUSPENDED]: active ? null : "true" } }, spec: { active } };
}

export function workloadFacts({ metadata, spec, status }: Stored<Workload>): WorkloadFacts {
  const active = spec?.active ?? true;
  const suspended = !active && metadata.annotations?.[SUSPENDED] !== undefined;
  return { name: metadata.name, active, suspended, ...said(status?.conditions ?? []) };
}

function said(conditions: readonly Condition[]): Omit<WorkloadFacts, "name" | "active" | "suspended"> {
  const [evicted, podsReady, quota] = ["Evicted", "PodsReady", "QuotaReserved"].map((type) =>
    findCondition(conditions, type),
  );
  const [isEvicted, reserved] = [evicted?.status === "True", quota?.status === "True"];
  // Once its quota is free, why it gets none says more than why it lost it.
  const told = reserved && isEvicted ? evicted : (quota ?? evicted);
  return {
    admitted: isTrue(conditions, "Admitted") && !isEvicted,
    reserved,
    evicted: isEvicted ? evicted?.reason : undefined,
    finished: isTrue(conditions, "Finished"),
    podsReady: podsReady && { ready: podsReady.status === "True", reason: podsReady.reason },
    message: told?.message || "Kueue has not said anything yet.",
  };
}

export type WorkloadCondition = Pick<Condition, "type" | "reason" | "message"> & { readonly status: boolean };

/** The job stands still: its quota is free. After a preemption it is queued again at once, otherwise when Kueue says so. */
export function released(reason: string, message: string): WorkloadCondition[] {
  const isRequeued = reason === "Preempted" || reason === "NodeFailures";
  return [
    { type: "QuotaReserved", status: false, reason: "Pending", message },
    { type: "Admitted", status: false, reason: "NoReservation", message: "The workload has no reservation" },
    { type: "Requeued", status: isRequeued, reason, message },
  ];
}

export function finished(succeeded: boolean, message: string): WorkloadCondition[] {
  return [
    { type: "Finished", status: true, reason: succeeded ? "Succeeded" : "Failed", message: message || "It ended." },
  ];
}

/** For Kueue's `waitForPodsReady`, which evicts what was admitted and does not start. Undefined: it knows. */
export function podsReadyChange(workload: WorkloadFacts, isReady: boolean): WorkloadCondition | undefined {
  const { admitted, podsReady } = workload;
  const next = admitted ? nextPodsReady(podsReady, isReady) : { ready: false, reason: "WaitForStart" };
  const isKnown = podsReady?.ready === next.ready && podsReady.reason === next.reason;
  if (isKnown || (!admitted && !podsReady)) return undefined;
  const message = next.ready ? "The job runs." : "The job does not run.";
  return { type: "PodsReady", status: next.ready, reason: next.reason, message };
}

function nextPodsReady(
  former: WorkloadFacts["podsReady"],
  isReady: boolean,
): { readonly ready: boolean; readonly reason: string } {
  const wasLost = former?.reason === "WaitForRecovery";
  if (isReady) return { ready: true, reason: wasLost || former?.reason === "Recovered" ? "Recovered" : "Started" };
  return { ready: false, reason: former?.ready || wasLost ? "WaitForRecovery" : "WaitForStart" };
}

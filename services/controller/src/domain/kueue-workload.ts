// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import type { Condition, Draft, KubeObject, ResourceType, Stored } from "@whetstone/kube";
import { TRAINING_JOBS, type TrainingJob } from "./training-job.ts";
import type { WorkloadFacts } from "./training-job-facts.ts";

/** Kueue's gang: what a job reserves, and whether it may run. */
export interface Workload extends KubeObject {
  spec?: JsonObject;
  status?: { conditions?: Condition[]; admission?: JsonObject };
}

/** Kueue 0.15 and newer. */
export const WORKLOADS: ResourceType<Workload> = {
  apiVersion: "kueue.x-k8s.io/v1beta2",
  kind: "Workload",
  plural: "workloads",
  namespaced: true,
};

export interface PriorityClass extends KubeObject {
  value?: number;
}

export const PRIORITY_CLASSES: ResourceType<PriorityClass> = {
  apiVersion: WORKLOADS.apiVersion,
  kind: "WorkloadPriorityClass",
  plural: "workloadpriorityclasses",
  namespaced: false,
};

export const JOB_LABEL = "whetstone.dev/job";

/** One for each object, so that making it twice is one: names are unique in time by the uid. */
export function workloadName({ metadata: { name, uid } }: Stored<TrainingJob>): string {
  return `trainingjob-${name}-${uid.slice(0, 5)}`;
}

/** @param priority  of the job's class; Kueue wants the number beside the name */
export function workloadOf(job: Stored<TrainingJob>, priority: number | undefined): Draft<Workload> {
  const { name, uid } = job.metadata;
  const { queueName = "", priorityClassName, podSets = [] } = job.spec;
  const { apiVersion, kind } = TRAINING_JOBS;
  const priorityClassRef = { group: "kueue.x-k8s.io", kind: PRIORITY_CLASSES.kind, name: priorityClassName ?? "" };
  return {
    metadata: {
      name: workloadName(job),
      labels: { "app.kubernetes.io/managed-by": "whetstone", [JOB_LABEL]: name, "kueue.x-k8s.io/job-uid": uid },
      ownerReferences: [{ apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      queueName,
      podSets: podSets.map(({ count = 1, ...podSet }) => ({ ...podSet, count })),
      ...(priorityClassName && { priorityClassRef, priority: priority ?? 0 }),
    },
  };
}

export function workloadFacts({ metadata, status }: Stored<Workload>): WorkloadFacts {
  const find = (type: string) => status?.conditions?.find((one) => one.type === type && one.status === "True");
  const evicted = find("Evicted");
  const waiting = status?.conditions?.find((one) => one.type === "QuotaReserved" && one.status !== "True");
  return {
    name: metadata.name,
    admitted: find("Admitted") !== undefined && evicted === undefined,
    reserved: find("QuotaReserved") !== undefined,
    evicted: evicted?.reason,
    finished: find("Finished") !== undefined,
    message: (evicted ?? waiting)?.message ?? "Kueue has not said anything yet.",
  };
}

export type WorkloadNews = Pick<Condition, "type" | "reason" | "message"> & { readonly status: boolean };

/** The job stands still: its quota is free, and after a preemption it wants to be queued again. */
export function released(reason: string): WorkloadNews[] {
  const message = "The job stands still.";
  const news: WorkloadNews[] = [
    { type: "QuotaReserved", status: false, reason: "Pending", message },
    { type: "Admitted", status: false, reason: "NoReservation", message },
  ];
  const isRequeued = reason === "Preempted" || reason === "NodeFailures";
  return isRequeued ? [...news, { type: "Requeued", status: true, reason, message }] : news;
}

export function finished(succeeded: boolean, message: string): WorkloadNews[] {
  return [
    { type: "Finished", status: true, reason: succeeded ? "Succeeded" : "Failed", message: message || "It ended." },
  ];
}

// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import type { Draft, KubeObject, ResourceType, Stored } from "@whetstone/kube";
import { placed, type Placements } from "../kueue/placement.ts";
import { TRAINING_JOBS, type TrainingJob } from "../training-job/schema.ts";
import type { Readiness } from "../training-job/facts.ts";

export interface RayCluster extends KubeObject {
  spec?: JsonObject;
  status?: {
    readyWorkerReplicas?: number;
    desiredWorkerReplicas?: number;
    conditions?: { type: string; status: string }[];
  };
}

export const RAY_CLUSTERS: ResourceType<RayCluster> = {
  apiVersion: "ray.io/v1",
  kind: "RayCluster",
  plural: "rayclusters",
  namespaced: true,
};

const TRAINER_PORT = 7400;

export const rayClusterName = (job: string): string => `${job}-trainer`;

/** Where the trainer of a job answers: KubeRay makes a Service for the head. Empty: the installation's own. */
export function trainerAddress({ metadata, spec }: Stored<TrainingJob>): string {
  if (spec.trainer?.backend !== "verl") return "";
  return `${rayClusterName(metadata.name)}-head-svc.${metadata.namespace ?? "default"}:${TRAINER_PORT}`;
}

/**
 * Head and workers from the job's pod template; the head runs the trainer service. The job owns it.
 * @param placements  of a queued job: of the pod sets `head` and `workers`, or of `trainer` for both
 */
export function rayClusterOf(job: Stored<TrainingJob>, placements: Placements = new Map()): Draft<RayCluster> {
  const { name, uid } = job.metadata;
  const { apiVersion, kind } = TRAINING_JOBS;
  const { workers = 0, podTemplate = {} } = job.spec.trainer ?? {};
  const templateOf = (podSet: string) => placed(podTemplate, placements.get(podSet) ?? placements.get("trainer"));
  const group = {
    ...{ groupName: "workers", replicas: workers, minReplicas: workers, maxReplicas: workers },
    ...{ rayStartParams: {}, template: templateOf("workers") },
  };
  return {
    metadata: {
      name: rayClusterName(name),
      labels: { "app.kubernetes.io/managed-by": "whetstone", "whetstone.dev/job": name },
      ownerReferences: [{ apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      headGroupSpec: { rayStartParams: {}, template: templateOf("head") },
      workerGroupSpecs: workers > 0 ? [group] : [],
    },
  };
}

export function rayReadiness({ metadata, status }: RayCluster): Readiness {
  if (metadata?.deletionTimestamp) return { ready: 0, wanted: 1, message: "the former cluster goes" };
  const isHeadReady =
    status?.conditions?.some(({ type, status: is }) => type === "HeadPodReady" && is === "True") === true;
  const [ready, wanted] = [status?.readyWorkerReplicas ?? 0, status?.desiredWorkerReplicas ?? 0];
  const isWhole = isHeadReady && ready >= wanted;
  return {
    ready: isWhole ? 1 : 0,
    wanted: 1,
    message: `head ${isHeadReady ? "" : "not "}ready, ${ready} of ${wanted} workers`,
  };
}

// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Draft, KubeObject, Pod, ResourceType, Stored } from "@whetstone/kube";
import type { Placements } from "../kueue/placement.ts";
import { TRAINING_JOBS, type TrainingJob } from "../training-job/schema.ts";
import type { Readiness } from "../training-job/facts.ts";
import { groupsOf, type RayTemplates } from "./ray-pods.ts";
import { troubleOf } from "./pod-trouble.ts";

export interface RayCluster extends KubeObject {
  spec?: JsonObject;
  status?: {
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

/** Of python-trainer/verl-requirements.txt. */
const RAY_VERSION = "2.60.0";
const TRAINER_PORT = 7400;
/** KubeRay refuses longer names, and such as begin with a digit. */
const MAX_NAME = 53;
const SUFFIX = "-trainer";

export function rayClusterName(job: string): string {
  const name = /^[a-z]/.test(job) ? job : `j-${job}`;
  if (name.length + SUFFIX.length <= MAX_NAME) return name + SUFFIX;
  const hash = createHash("sha256").update(job).digest("hex").slice(0, 8);
  return `${name.slice(0, MAX_NAME - SUFFIX.length - hash.length - 1)}-${hash}${SUFFIX}`;
}

/** A label selector of the pods that KubeRay makes for it. */
export const rayPodsOf = (job: string): string => `ray.io/cluster=${rayClusterName(job)}`;

/** Where the trainer of a job answers: KubeRay makes a Service for the head. Empty: the installation's own. */
export function trainerAddress({ metadata, spec }: Stored<TrainingJob>): string {
  if (spec.trainer?.backend !== "verl") return "";
  return `${rayClusterName(metadata.name)}-head-svc.${metadata.namespace ?? "default"}:${TRAINER_PORT}`;
}

/**
 * Head and workers from the chart's templates and the job's own; the head runs the trainer service. The job owns it.
 * @param placements  of a queued job: of the pod sets `head` and `workers`, or of `trainer` for both
 */
export function rayClusterOf(
  job: Stored<TrainingJob>,
  templates: RayTemplates = {},
  placements: Placements = new Map(),
): Draft<RayCluster> {
  const { name, uid } = job.metadata;
  const { apiVersion, kind } = TRAINING_JOBS;
  return {
    metadata: {
      name: rayClusterName(name),
      labels: { "app.kubernetes.io/managed-by": "whetstone", "whetstone.dev/job": name },
      ownerReferences: [{ apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      ...groupsOf(job.spec.trainer, templates, placements),
      // Who cannot show the cluster's token is refused by Ray. KubeRay makes it, and wants to know that Ray can.
      ...{ authOptions: { mode: "token" }, rayVersion: RAY_VERSION },
    },
  };
}

/**
 * @param pods  those of the cluster. They are counted, since its status stays as it was while KubeRay's operator is away, and
 *   they say why it is not whole
 */
export function rayReadiness({ metadata, status }: RayCluster, pods: readonly Pod[]): Readiness {
  if (metadata?.deletionTimestamp) return { ready: 0, wanted: 1, message: "the former cluster goes" };
  const { conditions = [], desiredWorkerReplicas: wanted = 0 } = status ?? {};
  const isSaidReady = conditions.some((one) => one.type === "HeadPodReady" && one.status === "True");
  const isHeadReady = isSaidReady && readyPods(pods, "head") > 0;
  const ready = readyPods(pods, "worker");
  const found = `head ${isHeadReady ? "" : "not "}ready, ${ready} of ${wanted} workers`;
  if (isHeadReady && ready >= wanted) return { ready: 1, wanted: 1, message: found };
  const message = [found, ...pods.map(troubleOf).filter(Boolean)].join("; ");
  return { ready: 0, wanted: 1, message, reason: isHeadReady ? "WorkerLost" : "HeadLost" };
}

function readyPods(pods: readonly Pod[], nodeType: "head" | "worker"): number {
  return pods.filter(
    ({ metadata, status }) =>
      metadata?.labels?.["ray.io/node-type"] === nodeType &&
      !metadata.deletionTimestamp &&
      status?.conditions?.some((one) => one.type === "Ready" && one.status === "True"),
  ).length;
}

// SPDX-License-Identifier: Apache-2.0
// What the controller makes of other projects' kinds, as their own definitions take it: each field known, each rule kept.
import type { KubeObject, ResourceType, Stored } from "@whetstone/kube";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { StoredFleet } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { LEADER_WORKER_SETS, leaderWorkerSet } from "../../services/controller/src/operator/inference-fleet/pods.ts";
import type { Placement } from "../../services/controller/src/operator/kueue/placement.ts";
import { workloadOf, WORKLOADS } from "../../services/controller/src/operator/kueue/workload.ts";
import { RAY_CLUSTERS, rayClusterOf } from "../../services/controller/src/operator/ray/ray-cluster.ts";
import type { TrainingJob } from "../../services/controller/src/operator/training-job/schema.ts";
import { openTestCluster, type TestCluster } from "../support/cluster.ts";
import { borrowReal } from "../support/definitions.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await openTestCluster("others");
});
afterAll(async () => {
  await cluster[Symbol.asyncDispose]();
});

const metadata = { name: "big", namespace: "lab", uid: "12345-6", resourceVersion: "1", creationTimestamp: "" };
const resources = { requests: { cpu: "1" }, limits: { "nvidia.com/gpu": "8" } };
const podTemplate = { spec: { containers: [{ name: "trainer", image: "verl:1", resources }] } };
const job: Stored<TrainingJob> = {
  metadata,
  spec: {
    ...{ job: {}, queueName: "gpu", priorityClassName: "high" },
    podSets: [
      { name: "head", template: podTemplate, topologyRequest: { required: "cloud/rack" } },
      { name: "workers", count: 4, template: podTemplate },
    ],
    trainer: { backend: "verl", workers: 4, podTemplate },
  },
};
const placement: Placement = {
  labels: { "kueue.x-k8s.io/podset": "head" },
  annotations: { "kueue.x-k8s.io/workload": "w" },
  nodeSelector: { gpu: "a100" },
  tolerations: [{ key: "gpu", operator: "Exists" }],
  schedulingGates: [{ name: "kueue.x-k8s.io/topology" }],
};
const fleet: StoredFleet = {
  metadata: { name: "f", uid: "u", resourceVersion: "1" },
  spec: {
    ...{ replicas: 1, nodesPerReplica: 2, onDemand: false, drainSeconds: 30, updateTimeoutSeconds: 60 },
    engine: { profile: "vllm", device: "cuda", dtype: "bfloat16", threads: 2, args: [] },
    model: { path: "/data/models/m" },
    modelVolume: { claimName: "data", mountPath: "/data" },
    template: {
      ...{ image: "vllm:1", proxyImage: "gateway:1", imagePullPolicy: "IfNotPresent" as const },
      terminationGracePeriodSeconds: 15,
    },
  },
};

const OBJECTS: readonly (readonly [ResourceType<KubeObject>, object])[] = [
  [WORKLOADS, workloadOf(job, 7)],
  [RAY_CLUSTERS, rayClusterOf(job, {}, new Map([["head", placement]]))],
  [LEADER_WORKER_SETS, leaderWorkerSet(fleet, 2)],
];

describe("other projects' kinds", () => {
  it.for(OBJECTS.map(([type, object]) => [type.kind, type, object] as const))(
    "%s",
    async ([kind, type, object], { skip }) => {
      await using real = await borrowReal(cluster.kube, type);
      if (!real) return skip("not on this cluster, and not in the folder WHETSTONE_DEFINITIONS");
      const made = { apiVersion: type.apiVersion, kind, ...object };
      const args = ["apply", "--server-side", "--validate=strict", "--dry-run=server"];
      expect((await cluster.kubectl(args, made)).text).toContain("serverside-applied");
      const wrong = { ...made, spec: { ...(made as { spec?: object }).spec, atlantis: 1 } };
      expect((await cluster.kubectl(args, wrong)).text).toContain("atlantis");
    },
  );
});

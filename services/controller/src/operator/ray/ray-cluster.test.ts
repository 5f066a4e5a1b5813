// SPDX-License-Identifier: Apache-2.0
import type { Stored } from "@whetstone/kube";
import { describe, expect, it } from "vitest";
import type { Placement } from "../kueue/placement.ts";
import { rayClusterOf, rayReadiness, trainerAddress } from "./ray-cluster.ts";
import type { TrainingJob } from "../training-job/schema.ts";

const podTemplate = { spec: { containers: [{ name: "trainer", image: "verl:1" }] } };
const job = (trainer: TrainingJob["spec"]["trainer"]): Stored<TrainingJob> => ({
  metadata: { name: "big", namespace: "lab", uid: "u", resourceVersion: "1", creationTimestamp: "" },
  spec: { job: {}, ...(trainer && { trainer }) },
});
const verl = (workers?: number) => job({ backend: "verl", podTemplate, ...(workers !== undefined && { workers }) });
const placement = (zone: string): Placement => ({
  ...{ labels: {}, annotations: {}, nodeSelector: { zone }, tolerations: [], schedulingGates: [] },
});
const zones = (cluster: ReturnType<typeof rayClusterOf>) => {
  const { headGroupSpec, workerGroupSpecs } = cluster.spec as unknown as {
    headGroupSpec: { template: { spec: { nodeSelector?: { zone: string } } } };
    workerGroupSpecs: { template: { spec: { nodeSelector?: { zone: string } } } }[];
  };
  return [headGroupSpec, ...workerGroupSpecs].map(({ template }) => template.spec.nodeSelector?.zone);
};

describe("RayCluster of a job", () => {
  it("is the job's, with a fixed number of workers", () => {
    const made = rayClusterOf(verl(4));
    expect(made.metadata).toMatchObject({ name: "big-trainer", ownerReferences: [{ name: "big", controller: true }] });
    expect(made.spec?.["workerGroupSpecs"]).toMatchObject([
      { groupName: "workers", replicas: 4, minReplicas: 4, maxReplicas: 4, template: podTemplate },
    ]);
    expect(made.metadata.labels).not.toHaveProperty("kueue.x-k8s.io/queue-name"); // Its Workload is the job's.
  });

  it("without workers is a head alone", () => {
    expect(rayClusterOf(verl()).spec).toEqual({
      headGroupSpec: { rayStartParams: {}, template: podTemplate },
      workerGroupSpecs: [],
    });
  });

  it("goes where the quota is: head and workers each, or both as the trainer", () => {
    const each = new Map([
      ["head", placement("a")],
      ["workers", placement("b")],
    ]);
    expect(zones(rayClusterOf(verl(1), each))).toEqual(["a", "b"]);
    expect(zones(rayClusterOf(verl(1), new Map([["trainer", placement("c")]])))).toEqual(["c", "c"]);
    expect(zones(rayClusterOf(verl(1)))).toEqual([undefined, undefined]);
  });

  it("answers at the Service of its head; a job without one at the installation's trainer", () => {
    expect(trainerAddress(verl())).toBe("big-trainer-head-svc.lab:7400");
    expect(trainerAddress(job({ backend: "local" }))).toBe("");
  });

  it("is ready with its head and all workers", () => {
    const ready = (is: string, readyWorkerReplicas: number) =>
      rayReadiness({
        metadata: { name: "c" },
        status: { readyWorkerReplicas, desiredWorkerReplicas: 2, conditions: [{ type: "HeadPodReady", status: is }] },
      }).ready;
    expect([ready("True", 2), ready("True", 1), ready("False", 2)]).toEqual([1, 0, 0]);
    const going = { name: "c", deletionTimestamp: "2026-01-01T12:00:00Z" };
    const status = { conditions: [{ type: "HeadPodReady", status: "True" }] };
    expect(rayReadiness({ metadata: going, status })).toMatchObject({ ready: 0, wanted: 1 });
    expect(rayReadiness({ metadata: { name: "c" } })).toMatchObject({ ready: 0, wanted: 1 });
  });
});

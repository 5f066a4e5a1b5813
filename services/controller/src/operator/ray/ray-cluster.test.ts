// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Pod, Stored } from "@whetstone/kube";
import { describe, expect, it } from "vitest";
import type { Placement } from "../kueue/placement.ts";
import { type RayCluster, rayClusterName, rayClusterOf, rayReadiness, trainerAddress } from "./ray-cluster.ts";
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

interface Container {
  readonly name: string;
  readonly env?: { name: string; value: string }[];
}
interface Group {
  readonly rayStartParams: Record<string, string>;
  readonly template: { readonly metadata?: object; readonly spec: { readonly containers: Container[] } };
}
const headOf = ({ spec }: ReturnType<typeof rayClusterOf>) => spec?.["headGroupSpec"] as unknown as Group;
const workersOf = ({ spec }: ReturnType<typeof rayClusterOf>) => (spec?.["workerGroupSpecs"] as unknown as Group[])[0];
const ranksOf = (made: ReturnType<typeof rayClusterOf>) =>
  headOf(made).template.spec.containers[0]?.env?.find(({ name }) => name === "WHETSTONE_RANKS")?.value;

describe("RayCluster of a job", () => {
  it("is the job's, with a fixed number of workers", () => {
    const made = rayClusterOf(verl(4));
    expect(made.metadata).toMatchObject({ name: "big-trainer", ownerReferences: [{ name: "big", controller: true }] });
    expect(made.spec?.["workerGroupSpecs"]).toMatchObject([
      { groupName: "workers", replicas: 4, minReplicas: 4, maxReplicas: 4, template: podTemplate },
    ]);
    // Its ranks are in the workers.
    expect(headOf(made)).toMatchObject({ rayStartParams: { "num-cpus": "0", "num-gpus": "0" } });
    expect(ranksOf(made)).toBe("4");
    expect(made.spec).toMatchObject({ authOptions: { mode: "token" } });
    expect(made.metadata.labels).not.toHaveProperty("kueue.x-k8s.io/queue-name"); // Its Workload is the job's.
  });

  it("without workers is a head alone", () => {
    const made = rayClusterOf(verl());
    expect(made.spec).toMatchObject({ headGroupSpec: { template: podTemplate }, workerGroupSpecs: [] });
    expect([headOf(made).rayStartParams, ranksOf(made)]).toEqual([{ "num-cpus": "1" }, "1"]);
  });

  it("is made from the chart's templates where the job says only how many workers it wants", () => {
    const template = (command: string) => ({
      metadata: { labels: { app: command } },
      spec: {
        containers: [{ name: "trainer", image: "verl:2", command: [command], env: [{ name: "A", value: "1" }] }],
      },
    });
    const templates = { head: template("head"), workers: template("worker") };
    const made = rayClusterOf(job({ backend: "verl", workers: 2 }), templates);
    const { metadata, spec } = headOf(made).template;
    expect([metadata, spec.containers[0]?.name]).toEqual([templates.head.metadata, "trainer"]);
    expect(spec.containers[0]?.env).toEqual([
      { name: "A", value: "1" },
      { name: "WHETSTONE_RANKS", value: "2" },
    ]);
    expect(workersOf(made)?.template).toEqual(templates.workers);
  });

  it("has a rank for each GPU of its workers, and none in its head; what the job says comes over the chart's", () => {
    const gpus = { limits: { "nvidia.com/gpu": "4" } };
    const env = [{ name: "B", value: "2" }];
    const own = {
      spec: { nodeSelector: { gpu: "h100" }, containers: [{ name: "trainer", image: "mine:1", env, resources: gpus }] },
    };
    const chart = {
      spec: {
        nodeSelector: { os: "linux" },
        containers: [{ name: "trainer", image: "verl:2", env: [{ name: "A", value: "1" }], resources: { limits: {} } }],
      },
    };
    const made = rayClusterOf(job({ backend: "verl", workers: 2, podTemplate: own }), { head: chart, workers: chart });
    const both = [{ name: "A", value: "1" }, ...env];
    expect(ranksOf(made)).toBe("8");
    expect(workersOf(made)?.rayStartParams).toMatchObject({ "num-cpus": "4" });
    expect(workersOf(made)?.template.spec).toEqual({
      nodeSelector: { os: "linux", gpu: "h100" },
      containers: [{ name: "trainer", image: "mine:1", env: both, resources: gpus }],
    });
    expect(headOf(made).template.spec.containers[0]).toMatchObject({ image: "mine:1", resources: { limits: {} } });
  });

  it("names the version of Ray that is in the image", () => {
    const requirements = join(import.meta.dirname, "../../../../../python-trainer/verl-requirements.txt");
    const { rayVersion = "" } = rayClusterOf(verl()).spec as { rayVersion?: string };
    expect(readFileSync(requirements, "utf8")).toContain(`\nray==${rayVersion} `);
  });

  it("has a name that KubeRay takes", () => {
    const long = `9${"x".repeat(51)}`;
    expect(["a", "9a"].map(rayClusterName)).toEqual(["a-trainer", "j-9a-trainer"]);
    expect(rayClusterName(long)).toMatch(/^j-9x+-[0-9a-f]{8}-trainer$/);
    expect(rayClusterName(long)).toHaveLength(53);
    expect(rayClusterName(`${long.slice(0, -1)}y`)).not.toBe(rayClusterName(long));
  });

  it("goes where the quota is: head and workers each, or both as the trainer", () => {
    const each = new Map([
      ["head", placement("a")],
      ["workers", placement("b")],
    ]);
    expect(zones(rayClusterOf(verl(1), {}, each))).toEqual(["a", "b"]);
    expect(zones(rayClusterOf(verl(1), {}, new Map([["trainer", placement("c")]])))).toEqual(["c", "c"]);
    expect(zones(rayClusterOf(verl(1)))).toEqual([undefined, undefined]);
  });

  it("answers at the Service of its head; a job without one at the installation's trainer", () => {
    expect(trainerAddress(verl())).toBe("big-trainer-head-svc.lab:7400");
    expect(trainerAddress(job({ backend: "local" }))).toBe("");
  });

  const AT = "2026-01-01T12:00:00Z";
  const pod = (type: "head" | "worker", isReady = true, more: Pod = {}): Pod => ({
    metadata: { name: `c-${type}`, labels: { "ray.io/node-type": type }, ...more.metadata },
    status: { conditions: [{ type: "Ready", status: isReady ? "True" : "False" }], ...more.status },
  });
  const cluster = (head = "True", deletionTimestamp?: string): RayCluster => ({
    metadata: { name: "c", ...(deletionTimestamp && { deletionTimestamp }) },
    status: { desiredWorkerReplicas: 2, conditions: [{ type: "HeadPodReady", status: head }] },
  });
  const [head, worker] = [pod("head"), pod("worker")];

  it.each([
    ["its head and all workers", cluster(), [head, worker, worker], { ready: 1 }],
    ["a head that KubeRay does not take for ready", cluster("False"), [head, worker, worker], { reason: "HeadLost" }],
    ["a worker that is not ready", cluster(), [head, worker, pod("worker", false)], { reason: "WorkerLost" }],
    // While its operator is away, nobody writes so into the cluster's status.
    [
      "a worker that is gone",
      cluster(),
      [head, worker],
      { reason: "WorkerLost", message: "head ready, 1 of 2 workers" },
    ],
    [
      "a head that is gone",
      cluster(),
      [worker, worker],
      { reason: "HeadLost", message: "head not ready, 2 of 2 workers" },
    ],
    ["nothing yet", { metadata: { name: "c" } }, [], { ready: 0 }],
    ["all of it, of a cluster that goes", cluster("True", AT), [head, worker, worker], { ready: 0 }],
  ])("is judged with %s", (_what, one, pods, expected) => {
    expect(rayReadiness(one, pods)).toMatchObject({ ready: 0, wanted: 1, ...expected });
  });

  it("says what became of pods that are lost", () => {
    const terminated = { exitCode: 137, reason: "OOMKilled" };
    const containerStatuses = [{ name: "trainer", ready: false, lastState: { terminated } } as never];
    const dead = pod("worker", false, { status: { containerStatuses } });
    expect(rayReadiness(cluster(), [head, worker, dead]).message).toBe(
      "head ready, 1 of 2 workers; c-worker: trainer ended: OOMKilled, exit code 137",
    );
    const leaving = pod("worker", true, { metadata: { deletionTimestamp: AT } });
    expect(rayReadiness(cluster("False"), [head, worker, leaving]).message).toBe(
      "head not ready, 1 of 2 workers; c-worker is being deleted",
    );
  });
});

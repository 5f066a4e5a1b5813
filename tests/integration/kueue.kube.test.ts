// SPDX-License-Identifier: Apache-2.0
// TrainingJobs in a queue of Kueue itself: run on any cluster where Kueue is installed and runs.
import type { JsonObject } from "@bufbuild/protobuf";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Draft, NODES, openKube, type Pod, PODS } from "@whetstone/kube";
import { silentLogger } from "@whetstone/telemetry";
import { RAY_CLUSTERS } from "../../services/controller/src/operator/ray/ray-cluster.ts";
import { TRAINING_JOBS } from "../../services/controller/src/operator/training-job/schema.ts";
import { borrowReal } from "../support/definitions.ts";
import { KubeJobs } from "../support/kube-jobs.ts";
import { CPUS, LABEL, Queue } from "../support/kueue.ts";

const LONG = { timeoutMs: 90_000, intervalMs: 100 };
const values = ["kueue.priorityClasses=true", "kueue.flavors=true"];

let jobs: KubeJobs;
let queue: Queue | string = "Kueue (kueue.x-k8s.io/v1beta2) is not installed on this cluster";
const stack = new AsyncDisposableStack();

beforeAll(async () => {
  using kube = openKube({ logger: silentLogger });
  if (await Queue.isThere(kube)) {
    jobs = await KubeJobs.start("kueue", values);
    queue = await Queue.open(jobs.cluster.kube);
    if (typeof queue !== "string") stack.use(queue);
    stack.use(jobs);
  }
  if (typeof queue === "string") console.log(`not tested: ${queue}`);
}, 300_000);

afterAll(() => stack.disposeAsync(), 200_000);

beforeEach(({ skip }) => {
  if (typeof queue === "string") skip(queue);
});

const kueue = (): Queue => queue as Queue;
const container = { name: "a", image: "busybox:stable", resources: { requests: { cpu: CPUS } } };
const template: JsonObject = { spec: { containers: [container] } };
const queued = () => ({ queueName: kueue().name, podSets: [{ name: "all", template }] });
const until = (look: () => Promise<unknown>, wanted: unknown) =>
  waitFor(async () => (await look()) === wanted, LONG).catch(async (cause: unknown) => {
    throw new Error(`wanted ${String(wanted)}, got ${String(await look())}`, { cause });
  });
const isSaid = (job: string, type: string, wanted: string) => until(() => kueue().said(job, type), wanted);
const isReserved = (cpus: string) => until(() => kueue().reserved(), cpus);

/** Two more steps than now. */
async function goesOn(job: string): Promise<void> {
  await jobs.is(job, "Running");
  const before = await jobs.step(job);
  await waitFor(async () => (await jobs.step(job)) >= before + 2, LONG);
}

describe("a job in Kueue's queue", () => {
  it("waits until it is admitted, and says what Kueue says", async () => {
    await jobs.apply("first", 2000, queued());
    await jobs.is("first", "Admitted=False/WaitingForQuota");
    await waitFor(async () => ((await jobs.get("first"))?.status?.message ?? "").includes(kueue().name), LONG);
    expect((await jobs.get("first"))?.status).toMatchObject({ state: "Queued" });
    await kueue().release();
    await jobs.is("first", "Admitted=True/QuotaReserved");
    await goesOn("first");
    await isSaid("first", "PodsReady", "True/Started");
    expect(await kueue().reserved()).toBe(CPUS);
  });

  it("makes place for one of higher priority, and goes on when that has ended", async () => {
    const { name } = kueue();
    await jobs.apply("urgent", 2000, { ...queued(), priorityClassName: name });
    await jobs.is("first", "Suspended=True/Evicted");
    await isSaid("first", "Requeued", "True/Preempted");
    const step = await jobs.step("first");
    await isSaid("urgent", "PodsReady", "True/Started");
    await jobs.patch("urgent", { job: { loop: { steps: (await jobs.step("urgent")) + 20 } } });
    await jobs.is("urgent", "Succeeded");
    await isSaid("urgent", "Finished", "True/Succeeded");
    await goesOn("first");
    expect(await jobs.step("first")).toBeGreaterThanOrEqual(step + 2);
  }, 180_000);

  it("taken out by an administrator gives its quota back, and stays out until it is let in again", async () => {
    await kueue().setActive("first", false);
    await jobs.is("first", "Suspended=True/Evicted");
    await isReserved("0");
    await isSaid("first", "Requeued", "False/Deactivated");
    await kueue().setActive("first", true);
    await goesOn("first");
    expect(await kueue().reserved()).toBe(CPUS);
  }, 180_000);

  it("suspended by its user gives its quota back, too, and waits for it again", async () => {
    await jobs.patch("first", { suspend: true });
    await jobs.is("first", "Suspended=True/SuspendedByUser");
    await isReserved("0");
    await jobs.patch("first", { suspend: false });
    await goesOn("first");
    expect(await kueue().reserved()).toBe(CPUS);
  }, 180_000);

  it("gets its Workload again when somebody deletes it", async () => {
    const former = (await kueue().workload("first"))?.metadata.uid;
    await kueue().deleteWorkload("first");
    await waitFor(async () => ![undefined, former].includes((await kueue().workload("first"))?.metadata.uid), LONG);
    await goesOn("first");
    await isSaid("first", "PodsReady", "True/Started");
  }, 180_000);

  it("has lost nothing at its end, and Kueue knows of it", async () => {
    await jobs.patch("first", { cancel: true });
    await jobs.is("first", "Cancelled");
    await isSaid("first", "Finished", "True/Failed");
    await isReserved("0");
    const audit = await jobs.client.auditJob({ name: "first" });
    expect(audit.trained).toBeGreaterThan(0n);
    expect(audit).toMatchObject({ lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n });
  });

  it("with a class that is not there says so", async () => {
    await jobs.apply("classless", 2, { ...queued(), priorityClassName: "nobody" });
    await jobs.is("classless", "Accepted=Unknown/CannotCheck");
    expect((await jobs.get("classless"))?.status?.message).toContain('no "nobody"');
  });

  it("has a Ray cluster only while it is admitted, where its flavor is", async ({ skip }) => {
    await using real = await borrowReal(jobs.cluster.kube, RAY_CLUSTERS);
    if (!real) return skip("KubeRay's RayCluster is neither on this cluster nor in the folder WHETSTONE_DEFINITIONS");
    const podSets = [{ name: "trainer", template }];
    await jobs.apply("ray", 2, { ...queued(), podSets, trainer: { backend: "verl", podTemplate: template } });
    const cluster = () => jobs.cluster.kube.get(RAY_CLUSTERS, "ray-trainer");
    await waitFor(async () => (await cluster()) !== undefined, LONG);
    expect((await cluster())?.spec?.["headGroupSpec"]).toMatchObject({
      template: {
        metadata: { labels: { "kueue.x-k8s.io/podset": "trainer" } },
        spec: { nodeSelector: { [LABEL]: kueue().name }, tolerations: [{ key: LABEL }] },
      },
    });
    await isSaid("ray", "PodsReady", "False/WaitForStart");
    await kueue().setActive("ray", false);
    await waitFor(async () => (await cluster()) === undefined, LONG);
    await isReserved("0");
    await kueue().setActive("ray", true);
    await waitFor(async () => (await cluster()) !== undefined, LONG);
    await jobs.patch("ray", { cancel: true });
    await waitFor(async () => (await cluster()) === undefined, LONG);
    await isSaid("ray", "Finished", "True/Failed");
  }, 180_000);

  it("has its pods bound to the nodes that Kueue chose", async ({ skip }) => {
    const { kube } = jobs.cluster;
    await using real = await borrowReal(kube, RAY_CLUSTERS);
    if (!real) return skip("KubeRay's RayCluster is neither on this cluster nor in the folder WHETSTONE_DEFINITIONS");
    const hostname = "kubernetes.io/hostname";
    const isReady = ({ type, status }: { type: string; status: string }): boolean =>
      type === "Ready" && status === "True";
    const free = (await kube.list(NODES)).find(
      ({ spec, status }) => !spec?.taints && status?.conditions?.some(isReady),
    );
    const host = free?.metadata.labels?.[hostname] ?? skip("no node is ready and without taints");
    await using nodes = await Queue.openWithTopology(kube, { [hostname]: host });
    const small: JsonObject = { spec: { containers: [{ ...container, resources: { requests: { cpu: "100m" } } }] } };
    const podSets = [{ name: "head", template: small, topologyRequest: { required: hostname } }];
    await jobs.apply("racked", 2, {
      ...{ queueName: nodes.name, podSets, trainer: { backend: "verl", podTemplate: small } },
    });
    const cluster = () => kube.get(RAY_CLUSTERS, "racked-trainer");
    await waitFor(async () => (await cluster()) !== undefined, LONG);
    const { template: head } = (await cluster())?.spec?.["headGroupSpec"] as unknown as { template: Draft<Pod> };
    expect(head.spec?.["schedulingGates"]).toEqual([{ name: "kueue.x-k8s.io/topology" }]);
    // As KubeRay would.
    await kube.create(PODS, { ...head, metadata: { ...head.metadata, name: "racked-head" } });
    await waitFor(async () => !(await kube.get(PODS, "racked-head"))?.spec?.["schedulingGates"], LONG);
    expect((await kube.get(PODS, "racked-head"))?.spec?.["nodeSelector"]).toMatchObject({ [hostname]: host });
    await kube.delete(PODS, "racked-head", { graceSeconds: 0 });
    await kube.delete(TRAINING_JOBS, "racked");
    await waitFor(async () => (await nodes.workload("racked")) === undefined, LONG);
  }, 180_000);
});

// SPDX-License-Identifier: Apache-2.0
// Engines and trainer on demand as a queued job's pods: run on any cluster where Kueue itself is installed and runs.
import type { JsonObject } from "@bufbuild/protobuf";
import { NODES, openKube, type Pod, PODS, type Stored } from "@whetstone/kube";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { WORKLOADS } from "../../services/controller/src/operator/kueue/workload.ts";
import { type PodSet, TRAINING_JOBS } from "../../services/controller/src/operator/training-job/schema.ts";
import { CPUS, LABEL, Queue } from "../support/kueue.ts";
import { LONG, OnDemandStage, SOUND } from "../support/on-demand.ts";

const NAMESPACE = `d-demand-kueue-${process.pid}`;
/** Of every node. */
const PLACE = { "kubernetes.io/os": "linux" };
const HOST = "kubernetes.io/hostname";

let stage: OnDemandStage;
let queue: Queue | string = "Kueue (kueue.x-k8s.io/v1beta2) is not installed on this cluster";
const stack = new AsyncDisposableStack();

beforeAll(async () => {
  using kube = openKube({ logger: silentLogger });
  if (await Queue.isThere(kube)) {
    stage = await OnDemandStage.start(NAMESPACE);
    queue = await Queue.open(stage.kube, PLACE);
    if (typeof queue !== "string") stack.use(queue);
    stack.use(stage);
  }
  if (typeof queue === "string") console.log(`not tested: ${queue}`);
}, 180_000);

afterAll(() => stack.disposeAsync(), 180_000);

beforeEach(({ skip }) => {
  if (typeof queue === "string") skip(queue);
});

const kueue = (): Queue => queue as Queue;
/** Of engines and trainer: together all that the queue has. */
function podSets(cpu: string, more: Partial<PodSet> = {}): PodSet[] {
  const container = { name: "a", image: "b", resources: { requests: { cpu } } };
  return ["engines", "trainer"].map((name) => ({
    name,
    count: 1,
    template: { spec: { containers: [container] } },
    ...more,
  }));
}

const podSetOf = ({ metadata }: Stored<Pod>): string => metadata.labels?.["kueue.x-k8s.io/podset"] ?? "";

/** Two more steps than now. */
async function goesOn(job: string): Promise<void> {
  await stage.is(job, "Running");
  const before = await stage.step(job);
  await waitFor(async () => (await stage.step(job)) >= before + 2, { ...LONG, what: `${job} to go on` });
}

/** @returns the pods that are there when something is first seen to be so */
async function podsWhen(what: string, isSo: () => Promise<boolean>): Promise<string[]> {
  const look = async () => (await isSo()) && (await stage.pods()).map(({ metadata }) => metadata.uid);
  return await waitFor(look, { ...LONG, what });
}
const isGivenBack = async () => (await kueue().said("queued", "QuotaReserved")).startsWith("False");
const isFree = async () => (await kueue().reserved()) === "0";

describe("a queued job's engines and trainer", () => {
  it("are not there before it is admitted", async () => {
    await stage.apply("queued", 100_000, { queueName: kueue().name, podSets: podSets("1") });
    await waitFor(async () => (await stage.get("queued"))?.status?.message?.includes(kueue().name), LONG);
    expect(await stage.pods()).toEqual([]);
    expect(await kueue().reserved()).toBe("0");
  });

  it("come when it is, where its quota is, and are counted once", async () => {
    await kueue().release();
    await goesOn("queued");
    const pods = await stage.pods();
    expect(pods.map(podSetOf).sort()).toEqual(["engines", "trainer"]);
    for (const { metadata, spec } of pods) {
      expect(spec).toMatchObject({ nodeSelector: PLACE });
      expect(spec?.["tolerations"]).toContainEqual({ key: LABEL, operator: "Exists" });
      expect(metadata.labels).toMatchObject({ "kueue.x-k8s.io/local-queue-name": kueue().name });
      expect(metadata.labels).not.toHaveProperty(["kueue.x-k8s.io/queue-name"]);
      expect(metadata.labels).not.toHaveProperty(["kueue.x-k8s.io/managed"]);
    }
    expect(await kueue().reserved()).toBe(CPUS);
    expect(await stage.kube.list(WORKLOADS)).toHaveLength(1);
    await waitFor(async () => (await kueue().said("queued", "PodsReady")) === "True/Started", LONG);
  }, 240_000);

  it("are gone before a more urgent one is admitted in its place, and come back after that", async () => {
    const former = (await stage.pods()).map(({ metadata }) => metadata.uid);
    const { name } = kueue();
    await stage.apply("urgent", 3, { queueName: name, priorityClassName: name, podSets: podSets("1") });
    const isAdmitted = async () => (await kueue().said("urgent", "QuotaReserved")).startsWith("True");
    const there = await podsWhen("the urgent one to be admitted", isAdmitted);
    expect(there.filter((uid) => former.includes(uid))).toEqual([]);
    expect(await kueue().said("queued", "QuotaReserved")).toMatch(/^False/);
    await stage.is("urgent", "Succeeded");
    expect(await stage.jobs.auditJob({ name: "urgent" })).toMatchObject(SOUND);
    await goesOn("queued");
  }, 240_000);

  it("are gone before its quota is given back when it is taken out, and it goes on when it is put back", async () => {
    // Kueue itself counts quota of what is inactive as free at once, whatever its pods do.
    await kueue().setActive("queued", false);
    expect(await podsWhen("quota to be given back", isGivenBack)).toEqual([]);
    await stage.is("queued", "Suspended");
    await kueue().setActive("queued", true);
    await goesOn("queued");
    expect(await kueue().reserved()).toBe(CPUS);
  }, 240_000);

  it("are gone before its quota is free when it is suspended, too", async () => {
    await stage.jobs.suspendJob({ name: "queued" });
    expect(await podsWhen("quota to be free", isFree)).toEqual([]);
    await stage.jobs.resumeJob({ name: "queued" });
    await goesOn("queued");
    expect(await kueue().reserved()).toBe(CPUS);
  }, 240_000);

  it("are gone before its quota is free when it ends, and nothing is lost", async () => {
    const loop = { steps: (await stage.step("queued")) + 10 };
    await stage.kube.patch(TRAINING_JOBS, "queued", { spec: { job: { loop } } });
    await stage.is("queued", "Succeeded");
    expect(await podsWhen("quota to be free", isFree)).toEqual([]);
    expect(await kueue().said("queued", "Finished")).toBe("True/Succeeded");
    const audit = await stage.jobs.auditJob({ name: "queued" });
    expect(audit.trained).toBeGreaterThan(0n);
    expect(audit).toMatchObject(SOUND);
  }, 240_000);

  it("are bound to the nodes that Kueue chose, and so is a pod that comes for one that is lost", async () => {
    const { kube } = stage;
    const hosts = (await kube.list(NODES)).map(({ metadata }) => metadata.labels?.[HOST]);
    await using nodes = await Queue.openWithTopology(kube, PLACE);
    await stage.apply("racked", 100_000, {
      queueName: nodes.name,
      podSets: podSets("100m", { topologyRequest: { required: HOST } }),
    });
    await goesOn("racked");
    const engine = (await stage.pods()).find((pod) => podSetOf(pod) === "engines");
    await kube.delete(PODS, engine?.metadata.name ?? "", { graceSeconds: 0 });
    await waitFor(async () => {
      const other = (await stage.pods()).find((pod) => podSetOf(pod) === "engines");
      return other && other.metadata.uid !== engine?.metadata.uid && !other.spec?.["schedulingGates"];
    }, LONG);
    await goesOn("racked");
    const pods = await stage.pods();
    expect(pods.map(podSetOf).sort()).toEqual(["engines", "trainer"]);
    for (const { metadata, spec } of pods) {
      expect(metadata.annotations).toMatchObject({ "kueue.x-k8s.io/podset-required-topology": HOST });
      expect(spec?.["schedulingGates"]).toBeUndefined();
      expect(hosts).toContain((spec?.["nodeSelector"] as JsonObject | undefined)?.[HOST]);
    }
    await stage.jobs.cancelJob({ name: "racked" });
    await stage.noPods();
    expect(await stage.jobs.auditJob({ name: "racked" })).toMatchObject(SOUND);
    await stage.deleteJobs();
    await waitFor(async () => (await nodes.workload("racked")) === undefined, LONG);
  }, 300_000);
});

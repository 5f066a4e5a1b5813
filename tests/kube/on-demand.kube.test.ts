// SPDX-License-Identifier: Apache-2.0
// Engines and a trainer that are there only while a job may run, and with Kueue (its part is played here) only where it says.
import { chmodSync } from "node:fs";
import {
  DEPLOYMENTS,
  type Kube,
  NAMESPACES,
  openKube,
  type Pod,
  PODS,
  setCondition,
  type Stored,
} from "@whetstone/kube";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INFERENCE_FLEETS } from "../../services/controller/src/domain/inference-fleet.ts";
import { RESOURCE_FLAVORS, type Workload, WORKLOADS } from "../../services/controller/src/domain/kueue-workload.ts";
import { ON_DEMAND, POD_TEMPLATES } from "../../services/controller/src/domain/trainer-on-demand.ts";
import { TRAINING_JOBS, type TrainingJobSpec } from "../../services/controller/src/domain/training-job.ts";
import { installDefinitions } from "../support/cluster.ts";
import { setStage, type Stage } from "../support/controllers.ts";
import { borrow, type Loan } from "../support/definitions.ts";
import { fleetSpec, MODEL_TOOLS } from "../support/engine-fleet.ts";
import { smallJob } from "../support/local-runtime.ts";

const LONG = { timeoutMs: 120_000, intervalMs: 100 };
const NAMESPACE = `d-demand-${process.pid}`;
const TRAINER = "t-on-demand";
/** Of every node. */
const PLACE = { "kubernetes.io/os": "linux" };
const SOUND = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n, violations: [] };

let kube: Kube;
let stage: Stage;
let jobs: RpcClient<typeof JobService>;
const loans: Loan[] = [];

beforeAll(async () => {
  installDefinitions();
  kube = openKube({ logger: silentLogger, namespace: NAMESPACE });
  await kube.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  stage = await setStage(NAMESPACE, 0);
  // Pods run as another user.
  chmodSync(stage.data, 0o755);
  await kube.create(POD_TEMPLATES, trainerTemplate());
  await kube.create(INFERENCE_FLEETS, { metadata: { name: "f" }, spec: { ...fleetSpec(stage), onDemand: true } });
  const { address } = await stage.startController("a", { WHETSTONE_ON_DEMAND: "true" });
  jobs = createClient(JobService, address);
}, 180_000);

afterAll(async () => {
  for (const { metadata } of await kube.list(TRAINING_JOBS)) await kube.delete(TRAINING_JOBS, metadata.name);
  await waitFor(async () => (await kube.list(TRAINING_JOBS)).length === 0, LONG);
  await jobs[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
  await kube.delete(NAMESPACES, NAMESPACE);
  await kube.delete(RESOURCE_FLAVORS, NAMESPACE).catch(() => undefined);
  for (const loan of loans) await loan[Symbol.asyncDispose]();
  kube[Symbol.dispose]();
}, 180_000);

/** The trainer that trains runs beside the test; that its pods come and go is what is looked at. */
function trainerTemplate() {
  const labels = { "app.kubernetes.io/name": "t", "app.kubernetes.io/component": "trainer" };
  const container = {
    name: "trainer",
    image: MODEL_TOOLS,
    command: ["sleep", "3600"],
    imagePullPolicy: "IfNotPresent",
  };
  const spec = { terminationGracePeriodSeconds: 1, containers: [container] };
  return { metadata: { name: TRAINER, labels: { [ON_DEMAND]: "trainer" } }, template: { metadata: { labels }, spec } };
}

async function apply(name: string, steps: number, spec: Partial<TrainingJobSpec> = {}): Promise<void> {
  const { name: _, ...job } = smallJob(name, stage.model, { steps, lag: 1 });
  await kube.create(TRAINING_JOBS, { metadata: { name }, spec: { ...spec, job } });
}

const objectOf = (name: string) => kube.get(TRAINING_JOBS, name);
const is = (name: string, state: string) =>
  waitFor(async () => (await objectOf(name))?.status?.state === state, { ...LONG, what: `${name} to be ${state}` });
const says = (name: string, message: string) =>
  waitFor(async () => (await objectOf(name))?.status?.message === message, { ...LONG, what: `${name}: ${message}` });

/** Engines and trainers, with those that are leaving. */
async function pods(): Promise<Stored<Pod>[]> {
  return await kube.list(PODS);
}
const none = () => waitFor(async () => (await pods()).length === 0, { ...LONG, what: "all pods to be gone" });
const fleetState = async () => (await kube.get(INFERENCE_FLEETS, "f"))?.status?.state;

describe("engines and trainer on demand", () => {
  it("are not there while no job is", async () => {
    await waitFor(async () => (await fleetState()) === "NotNeeded", LONG);
    expect(await pods()).toEqual([]);
    expect(await kube.list(DEPLOYMENTS)).toEqual([]);
  }, 60_000);

  it("come for a job, which waits for them, stay for the next one, and go with the last", async () => {
    await apply("first", 3);
    await says("first", "Being started: engines.");
    await is("first", "Running");
    const [engine] = await kube.list(PODS, { labels: "whetstone.dev/fleet=f" });
    await apply("second", 3);
    await is("second", "Succeeded");
    expect((await objectOf("first"))?.status?.state).toBe("Succeeded");
    await none();
    await waitFor(async () => (await kube.list(DEPLOYMENTS)).length === 0, LONG);
    expect(engine?.metadata.deletionTimestamp).toBeUndefined();
    for (const name of ["first", "second"]) expect(await jobs.auditJob({ name })).toMatchObject(SOUND);
  }, 240_000);

  it("go while their job is suspended, and come when it is resumed", async () => {
    await apply("paused", 10_000);
    await waitFor(async () => ((await objectOf("paused"))?.status?.step ?? 0) >= 2, LONG);
    await jobs.suspendJob({ name: "paused" });
    await is("paused", "Suspended");
    await none();
    const { step = 0 } = (await objectOf("paused"))?.status ?? {};
    await jobs.updateJob({ name: "paused", steps: step + 2 });
    await jobs.resumeJob({ name: "paused" });
    await is("paused", "Succeeded");
    expect(await jobs.auditJob({ name: "paused" })).toMatchObject(SOUND);
    await none();
  }, 240_000);
});

describe("a queued job's engines and trainer", () => {
  const template = { spec: { containers: [{ name: "a", image: "b" }] } };
  const podSets = ["engines", "trainer"].map((name) => ({ name, count: 1, template }));
  const workload = async (): Promise<Stored<Workload>> => {
    const [found] = await kube.list(WORKLOADS, { labels: "whetstone.dev/job=queued" });
    if (!found) throw new Error("there is no Workload");
    return found;
  };

  /** What Kueue's own controllers write. */
  async function say(change: object, ...news: readonly [type: string, is: boolean, reason: string][]): Promise<void> {
    const { metadata, status } = await workload();
    const conditions = news.reduce(
      (all, [type, is, reason]) => setCondition(all, { type, status: is, reason, message: `Kueue: ${reason}` }),
      status?.conditions ?? [],
    );
    await kube.patch(WORKLOADS, metadata.name, { status: { ...change, conditions } }, { subresource: "status" });
  }
  const said = async (type: string) => (await workload()).status?.conditions?.find((one) => one.type === type)?.status;

  it("come when it is admitted, go where its quota is, and are gone before it is given back", async ({ skip }) => {
    skip(await kube.has(WORKLOADS), "Kueue is on this cluster: see kueue.kube.test.ts");
    loans.push(await borrow(kube, WORKLOADS), await borrow(kube, RESOURCE_FLAVORS));
    await kube.create(RESOURCE_FLAVORS, { metadata: { name: NAMESPACE }, spec: { nodeLabels: PLACE } });
    await apply("queued", 10_000, { queueName: "gpu", podSets });
    await waitFor(async () => (await objectOf("queued"))?.status?.workload !== undefined, LONG);
    expect(await pods()).toEqual([]);

    const podSetAssignments = podSets.map(({ name }) => ({ name, flavors: { "nvidia.com/gpu": NAMESPACE } }));
    const admission = { clusterQueue: "all", podSetAssignments };
    await say({ admission }, ["QuotaReserved", true, "QuotaReserved"], ["Admitted", true, "Admitted"]);
    await is("queued", "Running");
    const there = await pods();
    expect(there.map(({ metadata, spec }) => [metadata.labels?.["kueue.x-k8s.io/podset"], spec?.nodeSelector])).toEqual(
      expect.arrayContaining([
        ["engines", PLACE],
        ["trainer", PLACE],
      ]),
    );

    await say({}, ["Evicted", true, "Preempted"]);
    const seen = new Set<string>();
    await waitFor(async () => {
      const reserved = await said("QuotaReserved");
      if (reserved === "True") return false;
      for (const { metadata } of await pods()) seen.add(metadata.name);
      return true;
    }, LONG);
    expect([...seen]).toEqual([]);
    await is("queued", "Suspended");
  }, 240_000);
});

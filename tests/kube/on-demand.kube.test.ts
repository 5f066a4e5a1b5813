// SPDX-License-Identifier: Apache-2.0
// Engines and a trainer that are there only while a job may run, and with Kueue (its part is played here) only where it says.
import { DEPLOYMENTS, PODS, setCondition, type Stored } from "@whetstone/kube";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INFERENCE_FLEETS } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { RESOURCE_FLAVORS, type Workload, WORKLOADS } from "../../services/controller/src/operator/kueue/workload.ts";
import { borrow, type Loan } from "../support/definitions.ts";
import { LONG, OnDemandStage, SOUND } from "../support/on-demand.ts";

const NAMESPACE = `d-demand-${process.pid}`;
/** Of every node. */
const PLACE = { "kubernetes.io/os": "linux" };

let stage: OnDemandStage;
const loans: Loan[] = [];

beforeAll(async () => {
  stage = await OnDemandStage.start(NAMESPACE);
}, 180_000);

afterAll(async () => {
  await stage.deleteJobs();
  await stage.kube.delete(RESOURCE_FLAVORS, NAMESPACE).catch(() => undefined);
  for (const loan of loans) await loan[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
}, 180_000);

const says = (name: string, message: string) =>
  waitFor(async () => (await stage.get(name))?.status?.message === message, { ...LONG, what: `${name}: ${message}` });
const fleetState = async () => (await stage.kube.get(INFERENCE_FLEETS, "f"))?.status?.state;

describe("engines and trainer on demand", () => {
  it("are not there while no job is", async () => {
    await waitFor(async () => (await fleetState()) === "NotNeeded", LONG);
    expect(await stage.pods()).toEqual([]);
    expect(await stage.kube.list(DEPLOYMENTS)).toEqual([]);
  });

  it("come for a job, which waits for them, stay for the next one, and go with the last", async () => {
    await stage.apply("first", 3);
    await says("first", "Being started: engines.");
    await stage.is("first", "Running");
    const [engine] = await stage.kube.list(PODS, { labels: "whetstone.dev/fleet=f" });
    await stage.apply("second", 3);
    await stage.is("second", "Succeeded");
    expect((await stage.get("first"))?.status?.state).toBe("Succeeded");
    await stage.noPods();
    await waitFor(async () => (await stage.kube.list(DEPLOYMENTS)).length === 0, LONG);
    expect(engine?.metadata.deletionTimestamp).toBeUndefined();
    for (const name of ["first", "second"]) expect(await stage.jobs.auditJob({ name })).toMatchObject(SOUND);
  }, 240_000);

  it("go while their job is suspended, and come when it is resumed", async () => {
    await stage.apply("paused", 10_000);
    await waitFor(async () => (await stage.step("paused")) >= 2, LONG);
    await stage.jobs.suspendJob({ name: "paused" });
    await stage.is("paused", "Suspended");
    await stage.noPods();
    const step = await stage.step("paused");
    await stage.jobs.updateJob({ name: "paused", steps: step + 2 });
    await stage.jobs.resumeJob({ name: "paused" });
    await stage.is("paused", "Succeeded");
    expect(await stage.jobs.auditJob({ name: "paused" })).toMatchObject(SOUND);
    await stage.noPods();
  }, 240_000);
});

describe("a queued job's engines and trainer", () => {
  const template = { spec: { containers: [{ name: "a", image: "b" }] } };
  const podSets = ["engines", "trainer"].map((name) => ({ name, count: 1, template }));
  const workload = async (): Promise<Stored<Workload>> => {
    const [found] = await stage.kube.list(WORKLOADS, { labels: "whetstone.dev/job=queued" });
    if (!found) throw new Error("there is no Workload");
    return found;
  };

  /** What Kueue's own controllers write. */
  async function say(
    change: object,
    ...condition: readonly [type: string, is: boolean, reason: string][]
  ): Promise<void> {
    const { metadata, status } = await workload();
    const conditions = condition.reduce(
      (all, [type, is, reason]) => setCondition(all, { type, status: is, reason, message: `Kueue: ${reason}` }),
      status?.conditions ?? [],
    );
    await stage.kube.patch(WORKLOADS, metadata.name, { status: { ...change, conditions } }, { subresource: "status" });
  }
  const said = async (type: string) => (await workload()).status?.conditions?.find((one) => one.type === type)?.status;

  it("come when it is admitted, go where its quota is, and are gone before it is given back", async ({ skip }) => {
    skip(await stage.kube.has(WORKLOADS), "Kueue is on this cluster: see on-demand-kueue.kube.test.ts");
    loans.push(await borrow(stage.kube, WORKLOADS), await borrow(stage.kube, RESOURCE_FLAVORS));
    await stage.kube.create(RESOURCE_FLAVORS, { metadata: { name: NAMESPACE }, spec: { nodeLabels: PLACE } });
    await stage.apply("queued", 10_000, { queueName: "gpu", podSets });
    await waitFor(async () => (await stage.get("queued"))?.status?.workload !== undefined, LONG);
    expect(await stage.pods()).toEqual([]);

    const podSetAssignments = podSets.map(({ name }) => ({ name, flavors: { "nvidia.com/gpu": NAMESPACE } }));
    const admission = { clusterQueue: "all", podSetAssignments };
    await say({ admission }, ["QuotaReserved", true, "QuotaReserved"], ["Admitted", true, "Admitted"]);
    await stage.is("queued", "Running");
    const there = await stage.pods();
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
      for (const { metadata } of await stage.pods()) seen.add(metadata.name);
      return true;
    }, LONG);
    expect([...seen]).toEqual([]);
    await stage.is("queued", "Suspended");
  }, 240_000);
});

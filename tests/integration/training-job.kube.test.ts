// SPDX-License-Identifier: Apache-2.0
// TrainingJob end to end: a controller on the cluster of KUBECONFIG, the real services beside it on this machine.
import { execFile } from "node:child_process";
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { setCondition, type Stored } from "@whetstone/kube";
import { connectNats } from "@whetstone/messaging";
import { type Job, JobPhase, type JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { WORKLOADS } from "../../services/controller/src/operator/kueue/workload.ts";
import { RAY_CLUSTERS } from "../../services/controller/src/operator/ray/ray-cluster.ts";
import { SANDBOX_POOLS, type SandboxPoolSpec } from "../../services/controller/src/operator/sandbox-pool/schema.ts";
import {
  TRAINING_JOBS,
  type TrainingJob,
  type TrainingJobSpec,
} from "../../services/controller/src/operator/training-job/schema.ts";
import { borrow, type Loan } from "../support/definitions.ts";
import { kubeconfigOf, type TestCluster } from "../support/cluster.ts";
import { KubeJobs } from "../support/kube-jobs.ts";
import { type LocalRuntime, smallJob } from "../support/local-runtime.ts";

let suite: KubeJobs;
let cluster: TestCluster;
let runtime: LocalRuntime;
let jobs: RpcClient<typeof JobService>;

beforeAll(async () => {
  suite = await KubeJobs.start("jobs");
  ({ cluster, runtime, client: jobs } = suite);
}, 300_000);
afterAll(() => suite[Symbol.asyncDispose](), 120_000);

const LONG = { timeoutMs: 60_000, intervalMs: 100 };

const textOf = (name: string, more: Parameters<typeof smallJob>[2] = {}): JsonObject => {
  const { name: _, ...job } = smallJob(name, runtime.model, more);
  return job;
};

const manifest = (name: string, job: JsonObject, spec: Partial<TrainingJobSpec> = {}) => ({
  ...{ apiVersion: "whetstone.dev/v1alpha1", kind: "TrainingJob" },
  ...{ metadata: { name, namespace: cluster.namespace }, spec: { ...spec, job } },
});

async function apply(name: string, job: JsonObject, spec: Partial<TrainingJobSpec> = {}): Promise<void> {
  const { code, text } = await cluster.kubectl(["apply"], manifest(name, job, spec));
  expect(text).toContain(name);
  expect(code).toBe(0);
}

const patch = async (name: string, spec: object): Promise<void> => {
  await cluster.kube.patch(TRAINING_JOBS, name, { spec });
};
const submit = (name: string, job: JsonObject) => jobs.submitJob({ spec: fromJson(JobSpecSchema, { ...job, name }) });
const record = async (name: string): Promise<Job> => (await jobs.getJob({ name })).job as Job;
const objectOf = (name: string) => cluster.kube.get(TRAINING_JOBS, name);
const state = async (name: string): Promise<string> => (await objectOf(name))?.status?.state ?? "";
const isIn = (name: string, wanted: string) => waitFor(async () => (await state(name)) === wanted, LONG);

function condition(object: Stored<TrainingJob> | undefined, type: string): string {
  const found = object?.status?.conditions?.find((one) => one.type === type);
  return `${found?.status}/${found?.reason}`;
}

const has = (name: string, type: string, wanted: string) =>
  waitFor(async () => condition(await objectOf(name), type) === wanted, LONG);

async function remove(name: string): Promise<void> {
  await cluster.kube.delete(TRAINING_JOBS, name);
  await waitFor(async () => (await objectOf(name)) === undefined, LONG);
}

/** Names of streams and KV keys that tell of the job. */
async function rests(name: string): Promise<string[]> {
  await using nats = await connectNats({
    servers: `nats://${runtime.address("nats", "nats")}`,
    name: "test",
    logger: silentLogger,
  });
  const manager = await jetstreamManager(nats);
  const found: string[] = [];
  for await (const stream of manager.streams.names()) if (stream.endsWith(`_${name}`)) found.push(stream);
  for (const bucket of ["ws-jobs", "ws-ledger"]) {
    const kv = await new Kvm(nats).open(bucket);
    for await (const key of await kv.keys([name, `${name}.>`])) found.push(`${bucket}/${key}`);
  }
  return found;
}

describe("a job as an object", () => {
  it("made by kubectl it is trained, and the object tells how it goes", async () => {
    await apply("applied", textOf("applied", { steps: 3 }), { failurePolicy: { maxRestarts: 2 } });
    await isIn("applied", "Succeeded");
    const object = await objectOf("applied");
    expect((await record("applied")).uid).toBe(object?.metadata.uid);
    expect(object?.status).toMatchObject({ step: 3, progress: "3/3", policyVersion: 3, restarts: 0 });
    expect(object?.status).toMatchObject({ counts: { dispatched: 96, trained: 96, voided: 0, inFlight: 0 } });
    expect(["Accepted", "Admitted", "Complete", "Failed"].map((type) => condition(object, type))).toEqual([
      ...["True/Accepted", "True/NotQueued", "True/Finished", "False/Ended"],
    ]);
    const { text } = await cluster.kubectl(["get", "tj", "applied"]);
    expect(text.split("\n")[0]?.split(/\s{2,}|\s+$/)).toEqual(
      expect.arrayContaining(["NAME", "STATE", "STEP", "POLICY", "LAG", "ENVS", "RESTARTS", "AGE"]),
    );
    expect(text).toMatch(/applied\s+Succeeded\s+3\/3\s+3/);
  });

  it("made by gRPC it is the same object, and made again by kubectl nothing new", async () => {
    const job = textOf("twin", { steps: 1 });
    const submitted = await submit("twin", job);
    expect(submitted.created).toBe(true);
    const object = await objectOf("twin");
    expect(submitted.job?.uid).toBe(object?.metadata.uid);
    await apply("twin", job);
    expect((await submit("twin", job)).created).toBe(false);
    await isIn("twin", "Succeeded");
    expect((await objectOf("twin"))?.metadata.uid).toBe(object?.metadata.uid);
    await expect(submit("twin", { ...job, seed: "4" })).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
  });

  it("that cannot run says which field and why, and never does", async () => {
    await apply("wrong", { ...textOf("wrong"), environment: { kind: "frozenlake", args: { size: -1 } } });
    await isIn("wrong", "Invalid");
    const object = await objectOf("wrong");
    expect([condition(object, "Accepted"), condition(object, "Failed")]).toEqual([
      "False/InvalidSpec",
      "True/InvalidSpec",
    ]);
    expect(object?.status?.message).toContain("spec.job.environment.");
    await expect(record("wrong")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await remove("wrong");
  });

  it("waits for a model folder that is not there, and goes on when it is", async () => {
    const path = join(suite.folder, "late-model");
    await apply("late", { ...textOf("late", { steps: 1 }), model: { path } });
    await has("late", "Accepted", "False/DependencyMissing");
    expect(await state("late")).toBe("Pending");
    expect((await objectOf("late"))?.status?.message).toContain(`spec.job.model.path: folder ${path}`);
    cpSync(runtime.model, path, { recursive: true });
    await isIn("late", "Succeeded");
    await remove("late");
  });

  it("waits for a module that is not in the store, and goes on when it was pushed", async () => {
    const code = new TextEncoder().encode("export const nothing = 1;");
    const { createHash } = await import("node:crypto");
    const digest = createHash("sha256").update(code).digest("hex");
    await apply("moduled", { ...textOf("moduled", { steps: 1 }), module: { digest } });
    await has("moduled", "Accepted", "False/ModuleMissing");
    expect((await jobs.pushModule({ moduleCode: code })).digest).toBe(digest);
    await has("moduled", "Accepted", "True/Accepted");
    await remove("moduled");
  });

  it("names what the cluster lacks", async ({ skip }) => {
    skip(await cluster.kube.has(RAY_CLUSTERS), "KubeRay is on this cluster");
    await apply("ray", textOf("ray"), { trainer: { backend: "verl" } });
    await has("ray", "Accepted", "False/KubeRayMissing");
    await remove("ray");
  });
});

describe("what a job has to become", () => {
  it("suspended and resumed by kubectl, grown while it runs, it ends with its last step", async () => {
    await apply("grown", textOf("grown", { steps: 1000 }));
    await waitFor(async () => ((await objectOf("grown"))?.status?.step ?? 0) >= 1, LONG);
    await has("grown", "TrainerReady", "True/Ready");
    await patch("grown", { suspend: true });
    await isIn("grown", "Suspended");
    expect(condition(await objectOf("grown"), "Suspended")).toBe("True/SuspendedByUser");
    const { step = 0 } = (await objectOf("grown"))?.status ?? {};
    await patch("grown", { suspend: false, job: { loop: { steps: step + 3 } } });
    await isIn("grown", "Running");
    await patch("grown", { job: { loop: { steps: step + 5 } } });
    await isIn("grown", "Succeeded");
    expect((await objectOf("grown"))?.status?.progress).toBe(`${step + 5}/${step + 5}`);
    const audit = await jobs.auditJob({ name: "grown" });
    expect(audit).toMatchObject({ lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n });
  }, 150_000);

  it("suspended, resumed and cancelled by gRPC, the object says the same", async () => {
    await submit("called", textOf("called", { steps: 200 }));
    await isIn("called", "Running");
    await jobs.suspendJob({ name: "called" });
    expect((await objectOf("called"))?.spec.suspend).toBe(true);
    await isIn("called", "Suspended");
    await jobs.resumeJob({ name: "called" });
    await isIn("called", "Running");
    await jobs.cancelJob({ name: "called" });
    await isIn("called", "Cancelled");
    expect((await objectOf("called"))?.spec).toMatchObject({ suspend: false, cancel: true });
    expect(condition(await objectOf("called"), "Failed")).toBe("True/Cancelled");
  });

  it("ends at its deadline, and vanishes after its time to live", async () => {
    const spec = {
      deadlines: { activeSeconds: 3 },
      cleanup: { ttlSecondsAfterFinished: 2, runFolder: "Delete" as const },
    };
    await apply("late", textOf("late", { steps: 200 }), spec);
    await has("late", "Failed", "True/ActiveDeadlineExceeded");
    const { uid } = await record("late");
    await waitFor(async () => (await objectOf("late")) === undefined, LONG);
    expect(await rests("late")).toEqual([]);
    expect(existsSync(join(runtime.data, "runs", uid))).toBe(false);
  });

  it("a second job waits, and obeys while the first one runs", async () => {
    await apply("front", textOf("front", { steps: 200 }));
    await isIn("front", "Running");
    await apply("back", textOf("back"));
    await isIn("back", "Queued");
    await patch("back", { suspend: true });
    await isIn("back", "Suspended");
    await remove("back");
    expect(await state("front")).toBe("Running");
    await remove("front");
  });
});

/** Its part is played here, so that it is tested where Kueue is not; kueue.kube.test.ts is for where it runs. */
describe("Kueue", () => {
  let definition: Loan | undefined;
  beforeEach(async ({ skip }) => {
    const isThere = definition === undefined && (await cluster.kube.has(WORKLOADS));
    skip(isThere, "Kueue is on this cluster: see kueue.kube.test.ts");
  });
  afterAll(async () => {
    await definition?.[Symbol.asyncDispose]();
  });
  const podSets = [{ name: "all", count: 1, template: { spec: { containers: [{ name: "a", image: "b" }] } } }];
  const workloadOf = async (job: string) =>
    (await cluster.kube.list(WORKLOADS, { labels: `whetstone.dev/job=${job}` }).catch(() => []))[0];

  /** What Kueue's own controllers write. */
  async function say(
    name: string,
    ...condition: readonly [type: string, is: boolean, reason: string][]
  ): Promise<void> {
    const { status } = (await cluster.kube.get(WORKLOADS, name)) ?? {};
    const conditions = condition.reduce(
      (all, [type, is, reason]) => setCondition(all, { type, status: is, reason, message: `Kueue: ${reason}` }),
      status?.conditions ?? [],
    );
    await cluster.kube.patch(WORKLOADS, name, { status: { conditions } }, { subresource: "status" });
  }
  const admission = { clusterQueue: "all", podSetAssignments: [{ name: "all" }] };

  it("is missed where it is not installed, and the job goes on when it comes", async () => {
    await apply("queued", textOf("queued", { steps: 200 }), { queueName: "gpu", podSets });
    await has("queued", "Accepted", "False/KueueMissing");
    definition = await borrow(cluster.kube, WORKLOADS);
    await has("queued", "Admitted", "False/WaitingForQuota");
    await waitFor(async () => (await workloadOf("queued")) !== undefined, LONG);
    expect((await workloadOf("queued"))?.spec).toMatchObject({
      queueName: "gpu",
      podSets: [{ name: "all", count: 1 }],
    });
    expect(await state("queued")).toBe("Queued");
  });

  it("admits, evicts and gets its quota back, admits again, and hears of the end", async () => {
    const workload = (await workloadOf("queued"))?.metadata.name ?? "";
    const status = { admission };
    await cluster.kube.patch(WORKLOADS, workload, { status }, { subresource: "status" });
    await say(workload, ["QuotaReserved", true, "QuotaReserved"], ["Admitted", true, "Admitted"]);
    await isIn("queued", "Running");
    expect(condition(await objectOf("queued"), "Admitted")).toBe("True/QuotaReserved");
    await say(workload, ["Evicted", true, "Preempted"]);
    await has("queued", "Suspended", "True/Evicted");
    const said = async (type: string) =>
      (await workloadOf("queued"))?.status?.conditions?.find((one) => one.type === type);
    await waitFor(async () => (await said("QuotaReserved"))?.status === "False", LONG);
    expect(await said("Requeued")).toMatchObject({ status: "True", reason: "Preempted" });
    expect((await workloadOf("queued"))?.status?.admission).toBeUndefined();
    await cluster.kube.patch(WORKLOADS, workload, { status }, { subresource: "status" });
    await say(
      workload,
      ["Evicted", false, "QuotaReserved"],
      ["QuotaReserved", true, "Again"],
      ["Admitted", true, "Again"],
    );
    await isIn("queued", "Running");
    await patch("queued", { cancel: true });
    await isIn("queued", "Cancelled");
    await waitFor(async () => (await said("Finished"))?.status === "True", LONG);
    await remove("queued");
    await waitFor(async () => (await workloadOf("queued")) === undefined, LONG); // Owned, so the garbage collector's.
  }, 150_000);
});

describe("deletion", () => {
  it("before an uninstall takes every job and waits for the last, and pools that users made", async () => {
    const spec = { image: "none", warm: 0, max: 1, memoryMiB: 64, diskMiB: 64 } as SandboxPoolSpec;
    await cluster.kube.create(SANDBOX_POOLS, { metadata: { name: "own" }, spec });
    await apply("doomed", textOf("doomed", { steps: 200 }));
    await isIn("doomed", "Running");
    const KUBECONFIG = kubeconfigOf("uninstall", cluster.namespace, suite.folder);
    const main = join(import.meta.dirname, "../../services/controller/src/main.ts");
    const env = { ...process.env, KUBECONFIG, WHETSTONE_KUBE_NAMESPACE: cluster.namespace };
    await promisify(execFile)(process.execPath, [main, "delete-objects"], { env });
    expect(await cluster.kube.list(TRAINING_JOBS)).toEqual([]);
    expect(await cluster.kube.list(SANDBOX_POOLS)).toEqual([]);
    expect(await rests("doomed")).toEqual([]);
  });

  it("of a running job leaves neither stream nor key, and the name can be used again", async () => {
    await apply("again", textOf("again", { steps: 200 }));
    await waitFor(async () => ((await objectOf("again"))?.status?.step ?? 0) >= 1, LONG);
    const former = await record("again");
    expect(await rests("again")).toContain("WS_EPISODE_again");
    await remove("again");
    expect(await rests("again")).toEqual([]);
    await expect(record("again")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(existsSync(join(runtime.data, "runs", former.uid))).toBe(true); // cleanup.runFolder: Keep
    await apply("again", textOf("again", { steps: 2 }));
    await isIn("again", "Succeeded");
    expect((await record("again")).uid).not.toBe(former.uid);
    expect(await jobs.auditJob({ name: "again" })).toMatchObject({ trained: 64n, lost: 0n, duplicated: 0n, stale: 0n });
    expect((await record("again")).status?.phase).toBe(JobPhase.SUCCEEDED);
  }, 150_000);
});

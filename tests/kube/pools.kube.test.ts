// SPDX-License-Identifier: Apache-2.0
// Training whose environments come and go: env-runners are pods of the cluster of KUBECONFIG, everything else is beside the test.
import { fromJson } from "@bufbuild/protobuf";
import { type Kube, NAMESPACES, openKube, PODS } from "@whetstone/kube";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { type Job, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  ENVIRONMENT_POOLS,
  ENVIRONMENT_PORT,
  type EnvironmentPool,
  POOL_LABELS,
} from "../../services/controller/src/operator/environment-pool/schema.ts";
import { TRAINING_JOBS } from "../../services/controller/src/operator/training-job/schema.ts";
import { installDefinitions } from "../support/cluster.ts";
import { setStage, type Stage } from "../support/controllers.ts";
import { smallJob } from "../support/local-runtime.ts";
import { runWhet } from "../support/whet.ts";

const NAMESPACE = `c-train-${process.pid}`;
const IMAGE = `${process.env["REGISTRY"] || "localhost/whetstone"}/env-runner:${process.env["TAG"] || "dev"}`;
const SOUND = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n, violations: [] };
const LONG = { timeoutMs: 120_000, intervalMs: 100 };

let kube: Kube;
let stage: Stage;
let address: string;
let jobs: RpcClient<typeof JobService>;

beforeAll(async () => {
  installDefinitions();
  kube = openKube({ logger: silentLogger, namespace: NAMESPACE });
  await kube.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  stage = await setStage(NAMESPACE, 1, true);
  ({ address } = await stage.startController("controller"));
  jobs = createClient(JobService, address);
}, 180_000);

afterAll(async () => {
  for (const { metadata } of await kube.list(TRAINING_JOBS)) await kube.delete(TRAINING_JOBS, metadata.name);
  await waitFor(async () => (await kube.list(TRAINING_JOBS)).length === 0, LONG);
  await jobs[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
  await kube.delete(NAMESPACES, NAMESPACE);
  kube[Symbol.dispose]();
}, 180_000);

async function makePool(name: string, spec: Partial<EnvironmentPool["spec"]>): Promise<void> {
  const probe = { grpc: { port: ENVIRONMENT_PORT, service: EnvironmentService.typeName }, periodSeconds: 1 };
  const resources = { requests: { cpu: "10m", memory: "64Mi" } };
  const containers = [{ name: "env-runner", image: IMAGE, readinessProbe: probe, resources }];
  const template = { spec: { containers } };
  const object = { metadata: { name }, spec: { slotsPerWorker: 8, ...spec, template } };
  await kube.create(ENVIRONMENT_POOLS, object as unknown as EnvironmentPool & { metadata: { name: string } });
}

function whet(...args: string[]): unknown {
  process.env["WHETSTONE_ENDPOINT"] = address;
  const { json, output, status } = runWhet(...args, "--json");
  if (status !== 0) throw new Error(output);
  return json;
}

async function submit(name: string, pool: string, more: { steps: number; lag: number }): Promise<void> {
  const { environment, ...job } = smallJob(name, stage.model, { ...more, groups: 8 });
  const spec = {
    ...job,
    environment: { ...(environment as object), pool },
    limits: { ...(job["limits"] as object), retryLimit: 0 },
  };
  await jobs.submitJob({ spec: fromJson(JobSpecSchema, spec) }, { deadlineMs: 120_000 });
}

const jobOf = async (name: string): Promise<Job> => (await jobs.getJob({ name })).job as Job;
const stepOf = async (name: string): Promise<number> => (await jobOf(name)).status?.step ?? 0;
const reaches = (name: string, step: number) =>
  waitFor(async () => (await stepOf(name)) >= step, { ...LONG, what: `${name} to reach step ${step}` });
const ends = (name: string) =>
  waitFor(async () => (await jobOf(name)).status?.phase === JobPhase.SUCCEEDED, {
    ...LONG,
    what: `${name} to succeed`,
  });

async function has(pool: string, replicas: number): Promise<void> {
  await waitFor(
    async () => {
      const { ready, draining } = (await kube.get(ENVIRONMENT_POOLS, pool))?.status ?? {};
      const pods = await kube.list(PODS, { labels: `${POOL_LABELS.pool}=${pool}` });
      return ready === replicas && draining === 0 && pods.length === replicas;
    },
    { ...LONG, what: `${pool} to have ${replicas} env-runners` },
  );
}

describe("training", () => {
  it("goes on while its environments scale 1 -> 4 -> 0 -> 2, and loses no episode", async () => {
    await makePool("default", { replicas: 1, drain: { deadlineSeconds: 1, onDeadline: "HandBack" } });
    await has("default", 1);
    await submit("scaled", "default", { steps: 400, lag: 1 });
    await reaches("scaled", 2);
    expect(whet("pools", "scale", "default", "4")).toMatchObject({ name: "default", replicas: 4 });
    await has("default", 4);
    await reaches("scaled", (await stepOf("scaled")) + 2);
    whet("pools", "scale", "default", "0");
    await has("default", 0);
    const stood = await stepOf("scaled");
    await new Promise((resolve) => setTimeout(resolve, 8_000));
    expect(await stepOf("scaled")).toBeLessThanOrEqual(stood + 2); // What was sealed may still be trained.
    expect(whet("pools", "get", "default")).toEqual({ name: "default" }); // Zero is what is wanted.
    whet("pools", "scale", "default", "2");
    await has("default", 2);
    const again = await stepOf("scaled");
    await reaches("scaled", again + 3);
    // Back and forth, while episodes play.
    for (const replicas of [1, 3, 0, 2]) {
      whet("pools", "scale", "default", String(replicas));
      await has("default", replicas);
      if (replicas > 0) await reaches("scaled", (await stepOf("scaled")) + 1);
    }
    await jobs.suspendJob({ name: "scaled" });
    await waitFor(async () => (await jobOf("scaled")).status?.phase === JobPhase.SUSPENDED, LONG);
    const { episodes } = (await jobOf("scaled")).status ?? {};
    expect(episodes?.voided).toBe(0n);
    expect(await jobs.auditJob({ name: "scaled" })).toMatchObject(SOUND);
    console.log(`trained ${episodes?.trained} episodes in ${await stepOf("scaled")} steps, voided ${episodes?.voided}`);
  }, 600_000);

  it("wakes a pool that scales by itself from zero, and lets it sleep again", async () => {
    const autoscaling = { enabled: true, min: 0, max: 3, cooldownSeconds: 8 };
    await makePool("auto", { replicas: 0, autoscaling });
    await submit("woken", "auto", { steps: 6, lag: 0 });
    await ends("woken");
    expect((await jobOf("woken")).status?.episodes).toMatchObject({ voided: 0n, trained: 6n * 32n });
    await has("auto", 0);
    expect(await jobs.auditJob({ name: "woken" })).toMatchObject(SOUND);
    expect(() => whet("pools", "scale", "auto", "2")).toThrow(/scales by itself/);
  }, 300_000);

  it("is refused for a pool that is not there", async () => {
    await expect(submit("lost", "nowhere", { steps: 1, lag: 0 })).rejects.toThrow(/environment.pool.*auto, default/);
  });
});

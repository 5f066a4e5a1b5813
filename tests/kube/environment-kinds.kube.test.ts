// SPDX-License-Identifier: Apache-2.0
// Pools by kind: env-runners of both images are pods under Pod Security restricted, everything else is beside the test. Jobs train
// in both, each pool scales and dies by itself.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { create, fromJson } from "@bufbuild/protobuf";
import { type Kube, NAMESPACES, openKube, type Pod, PODS, type Stored } from "@whetstone/kube";
import { EnvironmentService, type Observation, ObservationSchema } from "@whetstone/proto/environments/v1/environments";
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
import { CLOSE, openSession, reset, step } from "../../services/env-runner/test-support/session-client.ts";
import { installDefinitions } from "../support/cluster.ts";
import { setStage, type Stage } from "../support/controllers.ts";
import { smallJob } from "../support/local-runtime.ts";
import { runWhet } from "../support/whet.ts";

const NAMESPACE = `c-kinds-${process.pid}`;
const REGISTRY = process.env["REGISTRY"] || "localhost/whetstone";
const TAG = process.env["TAG"] || "dev";
const LONG = { timeoutMs: 180_000, intervalMs: 200 };
const SUM = { question: "1 + 2?", tests: { kind: "stdin", cases: [{ input: "1 2", output: "3" }] } };

let kube: Kube;
let stage: Stage;
let address: string;
let jobs: RpcClient<typeof JobService>;

beforeAll(async () => {
  installDefinitions();
  kube = openKube({ logger: silentLogger, namespace: NAMESPACE });
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await kube.create(NAMESPACES, { metadata: { name: NAMESPACE, labels } });
  stage = await setStage(NAMESPACE, 1, true);
  ({ address } = await stage.startController("controller"));
  jobs = createClient(JobService, address);
  await makePool("env-runner", ["code", "swe"], []);
  await makePool("env-runner-python", ["FrozenLake-v1"], ["gymnasium:FrozenLake-v1"]);
  await Promise.all([has("env-runner", 1), has("env-runner-python", 1)]);
}, 300_000);

afterAll(async () => {
  for (const { metadata } of await kube.list(TRAINING_JOBS)) await kube.delete(TRAINING_JOBS, metadata.name);
  await waitFor(async () => (await kube.list(TRAINING_JOBS)).length === 0, LONG);
  await jobs[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
  await kube.delete(NAMESPACES, NAMESPACE);
  kube[Symbol.dispose]();
}, 300_000);

/** Named as its image; with the rights that the chart gives its pods. */
async function makePool(image: string, kinds: string[], args: string[]): Promise<void> {
  const probe = { grpc: { port: ENVIRONMENT_PORT, service: EnvironmentService.typeName }, periodSeconds: 1 };
  const container = {
    ...{ name: "env-runner", image: `${REGISTRY}/${image}:${TAG}`, args, readinessProbe: probe },
    resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "1Gi" } },
    securityContext: {
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ["ALL"] },
    },
    volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
  };
  const securityContext = {
    ...{ runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001 },
    seccompProfile: { type: "RuntimeDefault" },
  };
  const pod = { securityContext, containers: [container], volumes: [{ name: "tmp", emptyDir: {} }] };
  const spec = { kinds, slotsPerWorker: 8, drain: { deadlineSeconds: 1 }, template: { spec: pod } };
  const object = { metadata: { name: image }, spec };
  await kube.create(ENVIRONMENT_POOLS, object as unknown as EnvironmentPool & { metadata: { name: string } });
}

const podsOf = (pool: string): Promise<Stored<Pod>[]> => kube.list(PODS, { labels: `${POOL_LABELS.pool}=${pool}` });

async function has(pool: string, replicas: number): Promise<void> {
  await waitFor(
    async () => {
      const { ready, draining } = (await kube.get(ENVIRONMENT_POOLS, pool))?.status ?? {};
      return ready === replicas && draining === 0 && (await podsOf(pool)).length === replicas;
    },
    { ...LONG, what: `${pool} to have ${replicas} env-runners` },
  );
}

function whet(...args: string[]): unknown {
  process.env["WHETSTONE_ENDPOINT"] = address;
  const { json, output, status } = runWhet(...args, "--json");
  if (status !== 0) throw new Error(output);
  return json;
}

async function submit(name: string, steps: number, environment: object, more: object = {}): Promise<void> {
  const job = smallJob(name, stage.model, { steps, groups: 4, lag: 1 });
  const limits = { maxSteps: 3, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "60s", retryLimit: 3 };
  const spec = { ...job, agent: { kind: "math" }, environment, limits, ...more };
  await jobs.submitJob({ spec: fromJson(JobSpecSchema, spec as never) }, { deadlineMs: 120_000 });
}

/** Of the only pod of the pool "env-runner". */
async function judged(program: string, more: object = {}): Promise<Observation | string> {
  const [pod] = await podsOf("env-runner");
  await using client = createClient(EnvironmentService, `${pod?.status?.podIP}:${ENVIRONMENT_PORT}`);
  const session = openSession(client, { deadlineMs: 60_000 });
  const opened = await session.ask(reset("code", { ...SUM, ...more }));
  if (opened.case === "error") return opened.value.message;
  const answer = await session.ask(step(`\`\`\`python\n${program}\n\`\`\``));
  await session.ask(CLOSE);
  return answer.case === "observation" ? answer.value : create(ObservationSchema);
}

const REACH = `
import os, socket
places = [("10.96.0.1", 443), ("169.254.169.254", 80), ("127.0.0.1", ${ENVIRONMENT_PORT})]
def reached(host, port):
    try: return socket.create_connection((host, port), 2) and host
    except OSError: return None
def read(path):
    try: return open(path).read(1) and path
    except OSError: return None
print([reached(*place) for place in places] + [read(path) for path in ("/proc/1/environ", "/app/dist/main.js")])`;

describe("a sandbox in a pod under Pod Security restricted", () => {
  it("is there, at level C at least, and says so", async () => {
    const { reward, info } = (await judged("print(sum(map(int, input().split())))")) as Observation;
    expect([reward, info?.["sandboxLevel"]]).toEqual([1, "C"]);
  });

  it("reaches neither API server, metadata, env-runner nor its files", async () => {
    const seen = (await judged(REACH, { maxTurns: 2, shownCases: 1 })) as Observation;
    expect(
      JSON.stringify(seen.data?.kind.value, (key, value: unknown) => (key === "$typeName" ? undefined : value)),
    ).toContain("[None, None, None, None, None]");
  });

  it("of a stronger level is refused by name", async () => {
    expect(await judged("", { sandboxLevel: "B" })).toContain("B is wanted at least, and here is only level C");
  });
});

describe("pools that name their kinds", () => {
  it("are listed with them", () => {
    const { environments } = whet("envs", "ls") as { environments: { pool: string; kind: string }[] };
    expect(environments.map(({ pool, kind }) => [pool, kind]).sort()).toEqual([
      ["env-runner", "code"],
      ["env-runner", "swe"],
      ["env-runner-python", "FrozenLake-v1"],
    ]);
  });

  it("refuse a job of another kind, with the pool that serves it, or the one to make", async () => {
    const wrong = submit("wrong", 1, { kind: "FrozenLake-v1", pool: "env-runner" });
    await expect(wrong).rejects.toThrow(/pool "env-runner-python" serves it: set environment.pool/);
    const unknown = submit("unknown", 1, { kind: "chess", pool: "env-runner" });
    await expect(unknown).rejects.toThrow(/EnvironmentPool such as "chess" with spec.kinds \["chess"\]/);
  });
});

const SOUND = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n, violations: [] };
const LAKE = { kind: "FrozenLake-v1", pool: "env-runner-python", args: { is_slippery: false } };

const jobOf = async (name: string): Promise<Job> => (await jobs.getJob({ name })).job as Job;
const stepOf = async (name: string): Promise<number> => (await jobOf(name)).status?.step ?? 0;
const uidsOf = async (pool: string): Promise<string[]> =>
  (await podsOf(pool)).map(({ metadata }) => metadata.uid).sort();

async function trainsOn(name: string, steps = 2): Promise<void> {
  const from = await stepOf(name);
  await waitFor(async () => (await stepOf(name)) >= from + steps, {
    ...LONG,
    what: `${name} to reach ${from + steps}`,
  });
}

describe("jobs in pools that name their kinds", () => {
  it("train on while the one pool scales and loses a pod, and the other stays as it is", async () => {
    await submit("lake", 400, LAKE);
    await trainsOn("lake");
    const [python, node] = [await uidsOf("env-runner-python"), await uidsOf("env-runner")];
    for (const replicas of [3, 1]) {
      whet("pools", "scale", "env-runner", String(replicas));
      await has("env-runner", replicas);
      await trainsOn("lake");
      expect(await uidsOf("env-runner-python")).toEqual(python);
    }
    const left = await uidsOf("env-runner");
    expect(left).toHaveLength(node.length);
    for (const replicas of [2, 1]) {
      whet("pools", "scale", "env-runner-python", String(replicas));
      await has("env-runner-python", replicas);
      await trainsOn("lake");
    }
    const [pod] = await podsOf("env-runner-python");
    await kube.delete(PODS, pod?.metadata.name ?? "", { graceSeconds: 0 });
    await waitFor(async () => !(await uidsOf("env-runner-python")).includes(pod?.metadata.uid ?? ""), LONG);
    await has("env-runner-python", 1);
    await trainsOn("lake");
    expect(await uidsOf("env-runner")).toEqual(left);
    await jobs.suspendJob({ name: "lake" });
    await waitFor(async () => (await jobOf("lake")).status?.phase === JobPhase.SUSPENDED, LONG);
    expect((await jobOf("lake")).status?.episodes?.voided).toBe(0n);
    expect(await jobs.auditJob({ name: "lake" })).toMatchObject(SOUND);
  }, 400_000);

  it("judge programs in the sandboxes of their pods", async () => {
    const jsonl = join(stage.data, "sums.jsonl");
    writeFileSync(jsonl, `${JSON.stringify({ id: "sum", payload: SUM })}\n`);
    await submit("programs", 2, { kind: "code", pool: "env-runner" }, { train: { jsonl, repeat: "100" } });
    await waitFor(async () => (await jobOf("programs")).status?.phase === JobPhase.SUCCEEDED, LONG);
    expect((await jobOf("programs")).status?.episodes).toMatchObject({ voided: 0n, trained: 32n });
    expect(await jobs.auditJob({ name: "programs" })).toMatchObject(SOUND);
  }, 200_000);
});

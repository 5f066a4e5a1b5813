// SPDX-License-Identifier: Apache-2.0
// EnvironmentPool on the cluster of KUBECONFIG: real pods with the real env-runner; the controller's part runs in the test.
import { execFileSync } from "node:child_process";
import { create } from "@bufbuild/protobuf";
import {
  type Kube,
  NAMESPACES,
  openKube,
  type Pod,
  PODS,
  resource,
  type KubeObject,
  type Stored,
} from "@whetstone/kube";
import {
  ensureJobStreams,
  ensurePlatform,
  episodeTaskSubject,
  JOBS_BUCKET,
  type Nats,
  openKv,
  openStreams,
  POOLS_BUCKET,
  purgeTasks,
} from "@whetstone/messaging";
import {
  EnvironmentService,
  type SessionRequest,
  SessionRequestSchema,
} from "@whetstone/proto/environments/v1/environments";
import { PoolRecordSchema, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { createLogger, createMetrics, silentLogger } from "@whetstone/telemetry";
import { startNats, type TestNats, waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { JobStore } from "../../jobs/job-store.ts";
import { ENVIRONMENT_POOLS, ENVIRONMENT_PORT, type EnvironmentPool, POOL_LABELS } from "./schema.ts";
import { startEnvironmentPools } from "./reconciler.ts";
import type { OperatorParts } from "../parts.ts";

const NAMESPACE = `c-pool-${process.pid}`;
const IMAGE = `${process.env["REGISTRY"] || "localhost/whetstone"}/env-runner:${process.env["TAG"] || "dev"}`;
const LOG = process.env["WHETSTONE_TEST_LOG"] ? createLogger({ component: "test", level: "debug" }) : silentLogger;
const HPAS = resource<KubeObject & { spec: object }>(
  "autoscaling/v2",
  "HorizontalPodAutoscaler",
  "horizontalpodautoscalers",
);

const stack = new AsyncDisposableStack();
let kube: Kube;
let nats: Nats;
let server: TestNats;
let store: JobStore;
let leads: AbortController[] = [];
let epoch = 0n;

beforeAll(async () => {
  kube = stack.use(openKube({ logger: silentLogger, namespace: NAMESPACE }));
  await kube.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  server = stack.use(await startNats());
  nats = await server.connect();
  stack.use(nats);
  await ensurePlatform(nats);
  store = await JobStore.open(nats);
  await lead();
});

afterAll(async () => {
  for (const one of leads) one.abort();
  await kube.delete(NAMESPACES, NAMESPACE);
  await stack.disposeAsync();
});

afterEach(async () => {
  for (const { metadata } of await kube.list(ENVIRONMENT_POOLS)) await kube.delete(ENVIRONMENT_POOLS, metadata.name);
  for (const { metadata } of await kube.list(PODS)) await kube.delete(PODS, metadata.name, { graceSeconds: 0 });
});

/** A new leader; the former one stops. */
async function lead(): Promise<void> {
  for (const one of leads.splice(0)) one.abort();
  const stop = new AbortController();
  leads = [stop];
  const own = (epoch += 1n);
  const metrics = createMetrics({ component: "test", processMetrics: false });
  const parts = {
    kube,
    nats,
    store,
    jobs: store.mirror,
    logger: LOG,
    metrics,
    tls: undefined,
    lead: { epoch: own, assert: () => undefined },
  };
  store.mirror.follow(stop.signal).catch(() => undefined);
  stack.use(await startEnvironmentPools(parts as unknown as OperatorParts, stop.signal));
}

const restricted = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
  runAsNonRoot: true,
  seccompProfile: { type: "RuntimeDefault" },
};

async function makePool(name: string, spec: Partial<EnvironmentPool["spec"]> = {}, command?: string[]): Promise<void> {
  const probe = { grpc: { port: ENVIRONMENT_PORT, service: EnvironmentService.typeName }, periodSeconds: 1 };
  const container = {
    name: "env-runner",
    image: IMAGE,
    securityContext: restricted,
    resources: { requests: { cpu: "10m", memory: "64Mi" } },
    ...(command ? { command } : { readinessProbe: probe }),
  };
  const template = { spec: { containers: [container] } };
  const object = { metadata: { name }, spec: { slotsPerWorker: 4, replicas: 1, ...spec, template } };
  await kube.create(ENVIRONMENT_POOLS, object as unknown as EnvironmentPool & { metadata: { name: string } });
}

const statusOf = async (name: string) => (await kube.get(ENVIRONMENT_POOLS, name))?.status;
const podsOf = (name: string): Promise<Stored<Pod>[]> => kube.list(PODS, { labels: `${POOL_LABELS.pool}=${name}` });
const living = async (name: string) => (await podsOf(name)).filter(({ metadata }) => !metadata.deletionTimestamp);

async function settled(name: string, replicas: number): Promise<void> {
  await waitFor(
    async () => {
      const { ready, draining } = (await statusOf(name)) ?? {};
      return ready === replicas && draining === 0 && (await living(name)).length === replicas;
    },
    { timeoutMs: 90_000, what: `${name} to have ${replicas}` },
  );
}

function scale(name: string, replicas: number): void {
  execFileSync("kubectl", ["-n", NAMESPACE, "scale", "environmentpool", name, `--replicas=${replicas}`]);
}

async function recordOf(pool: string) {
  return (await (await openKv(nats, POOLS_BUCKET, PoolRecordSchema)).get(pool))?.value;
}

/** A session that stays open until told. */
async function openSession(address: string) {
  const client = createClient(EnvironmentService, address);
  const { readable, writable } = new TransformStream<SessionRequest, SessionRequest>({}, { highWaterMark: 16 });
  const writer = writable.getWriter();
  const answers = client.session(readable)[Symbol.asyncIterator]();
  const value = { kind: "frozenlake", args: { size: 4 } };
  void writer.write(create(SessionRequestSchema, { kind: { case: "reset", value } }));
  await answers.next();
  return {
    next: async () => {
      const { value } = (await answers.next()) as { value: { kind: { case: string; value: { code: string } } } };
      return value.kind.case === "error" ? value.kind.value.code : value.kind.case;
    },
    step: () => void writer.write(create(SessionRequestSchema, { kind: { case: "step", value: { action: "Left" } } })),
    end: () => writer.close(),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

describe("a pool", () => {
  it("follows kubectl scale 1 -> 3 -> 0 -> 2, and says so to orchestrators and people", async () => {
    await makePool("web");
    await settled("web", 1);
    expect((await recordOf("web"))?.runners).toMatchObject([{ slots: 4, draining: false }]);
    for (const replicas of [3, 0, 2]) {
      scale("web", replicas);
      await settled("web", replicas);
      expect((await recordOf("web"))?.runners).toHaveLength(replicas);
    }
    const { selector, freeSlots, conditions = [] } = (await statusOf("web")) ?? {};
    expect([selector, freeSlots]).toEqual(["whetstone.dev/pool=web", 8]);
    expect(conditions.map(({ type, reason }) => `${type}/${reason}`)).toEqual([
      "Ready/AllReady",
      "Scaling/Settled",
      "Degraded/Healthy",
    ]);
    const [pod] = await podsOf("web");
    expect(pod?.spec).toMatchObject({ terminationGracePeriodSeconds: 150, automountServiceAccountToken: false });
  }, 240_000);

  it("lets a busy pod finish, sends away the idle one, and hands back at the deadline", async () => {
    await makePool("busy", { replicas: 2, drain: { deadlineSeconds: 12, onDeadline: "HandBack" } });
    await settled("busy", 2);
    const [one] = await podsOf("busy");
    await using session = await openSession(`${one?.status?.podIP}:${ENVIRONMENT_PORT}`);
    scale("busy", 0);
    // The idle one goes at once; the other takes nothing new, and goes on with what it has.
    await waitFor(async () => (await living("busy")).length === 1, { timeoutMs: 30_000 });
    expect((await living("busy"))[0]?.metadata.uid).toBe(one?.metadata.uid);
    session.step();
    expect(await session.next()).toBe("observation");
    const left = async () => (await recordOf("busy"))?.runners.map(({ id, draining }) => [id, draining]) ?? [];
    await waitFor(async () => (await left()).length === 1);
    expect(await left()).toEqual([[one?.metadata.uid, true]]);
    expect(await session.next()).toBe("DRAINING");
    await waitFor(async () => (await living("busy")).length === 0, { timeoutMs: 30_000 });
  });

  it("takes a draining pod back rather than make another, and a new leader goes on where the old one was", async () => {
    await makePool("back", { replicas: 1 });
    await settled("back", 1);
    const [pod] = await podsOf("back");
    await using session = await openSession(`${pod?.status?.podIP}:${ENVIRONMENT_PORT}`);
    scale("back", 0);
    await waitFor(async () => (await recordOf("back"))?.runners[0]?.draining === true, { timeoutMs: 20_000 });
    await lead();
    await waitFor(async () => (await recordOf("back"))?.epoch === epoch, { timeoutMs: 20_000 });
    expect((await living("back")).map(({ metadata }) => metadata.uid)).toEqual([pod?.metadata.uid]);
    scale("back", 1);
    await settled("back", 1);
    expect((await podsOf("back")).map(({ metadata }) => metadata.uid)).toEqual([pod?.metadata.uid]);
    await using _other = await openSession(`${pod?.status?.podIP}:${ENVIRONMENT_PORT}`);
    session.step();
    expect(await session.next()).toBe("observation");
  });

  it("replaces a pod that was evicted or deleted", async () => {
    await makePool("heal", { replicas: 2 });
    await settled("heal", 2);
    const [one, other] = await podsOf("heal");
    await kube.delete(PODS, one?.metadata.name ?? "", { graceSeconds: 0 });
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: other?.metadata.name } };
    await waitFor(
      async () => {
        const path = `/api/v1/namespaces/${NAMESPACE}/pods/${other?.metadata.name}/eviction`;
        // The budget lets no second one go before the first is replaced.
        return await kube.raw({ verb: "evict", method: "POST", path, body: eviction }).then(
          () => true,
          () => false,
        );
      },
      { timeoutMs: 60_000 },
    );
    await waitFor(
      async () => {
        const uids = new Set((await living("heal")).map(({ metadata }) => metadata.uid));
        return uids.size === 2 && !uids.has(one?.metadata.uid ?? "") && !uids.has(other?.metadata.uid ?? "");
      },
      { timeoutMs: 60_000 },
    );
    await settled("heal", 2);
  }, 180_000);

  it("changes its template without losing its readiness", async () => {
    await makePool("roll", { replicas: 2 });
    await settled("roll", 2);
    const before = new Set((await podsOf("roll")).map(({ metadata }) => metadata.uid));
    await kube.patch(ENVIRONMENT_POOLS, "roll", { spec: { slotsPerWorker: 7 } });
    let fewest = 2;
    await waitFor(
      async () => {
        const runners = (await recordOf("roll"))?.runners.filter(({ draining }) => !draining) ?? [];
        fewest = Math.min(fewest, runners.length);
        return runners.length === 2 && runners.every(({ slots, id }) => slots === 7 && !before.has(id));
      },
      { timeoutMs: 90_000 },
    );
    expect(fewest).toBe(2);
  }, 180_000);

  it("scales by itself with what is dispatched and not sealed, from zero and to zero", async () => {
    const autoscaling = { enabled: true, min: 0, max: 3, cooldownSeconds: 5 };
    await makePool("auto", { replicas: 0, autoscaling });
    await settled("auto", 0);
    await dispatch("job-auto", "auto", 9);
    await settled("auto", 3);
    expect((await statusOf("auto"))?.wantedSlots).toBe(9);
    await purgeTasks(nats, "job-auto");
    await settled("auto", 0);
  }, 180_000);

  it("is scaled by a HorizontalPodAutoscaler", async () => {
    // Stands in for a busy environment: it computes, and is ready at once.
    await makePool("hpa", { replicas: 1 }, ["sh", "-c", "while :; do :; done"]);
    const metric = {
      type: "Resource",
      resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 100 } },
    };
    const scaleTargetRef = { apiVersion: ENVIRONMENT_POOLS.apiVersion, kind: ENVIRONMENT_POOLS.kind, name: "hpa" };
    const spec = { scaleTargetRef, minReplicas: 1, maxReplicas: 2, metrics: [metric] };
    await kube.create(HPAS, { metadata: { name: "hpa" }, spec });
    await waitFor(async () => (await kube.get(ENVIRONMENT_POOLS, "hpa"))?.spec.replicas === 2, { timeoutMs: 150_000 });
    await waitFor(async () => (await living("hpa")).length === 2, { timeoutMs: 60_000 });
    await kube.delete(HPAS, "hpa");
  }, 240_000);

  it("says why pods do not come", async () => {
    await makePool("poor", { replicas: 1 });
    const quota = resource<KubeObject & { spec: object }>("v1", "ResourceQuota", "resourcequotas");
    await kube.create(quota, { metadata: { name: "none" }, spec: { hard: { pods: "0" } } });
    try {
      await makePool("refused", { replicas: 1 });
      await waitFor(async () =>
        ((await statusOf("refused"))?.conditions ?? []).some(({ reason }) => reason === "PodsRefused"),
      );
    } finally {
      await kube.delete(quota, "none");
    }
    await settled("refused", 1);
  });
});

/** A running job with tasks that nobody plays. */
async function dispatch(job: string, pool: string, count: number): Promise<void> {
  const kv = await openKv(nats, JOBS_BUCKET, JobSchema);
  const environment = { kind: "frozenlake", pool };
  await kv.put(job, { spec: { name: job, environment }, status: { phase: JobPhase.RUNNING } });
  await ensureJobStreams(nats, job);
  const streams = await openStreams(nats);
  for (let sample = 0; sample < count; sample += 1) {
    const task = create(RolloutTaskSchema, { episodeId: `${job}/g0/s${sample}`, job, group: "g0", sample });
    await streams.publish(episodeTaskSubject(job, "g0", sample, pool), RolloutTaskSchema, task);
  }
}

// SPDX-License-Identifier: Apache-2.0
// What cluster autoscalers are told of a pool's pods, on the cluster of KUBECONFIG. The pods fit no node: none has to run.
import { create, toBinary } from "@bufbuild/protobuf";
import { type Kube, NAMESPACES, openKube, type Pod, PODS, type Stored } from "@whetstone/kube";
import { ensurePlatform, type Nats, poolLoadSubject } from "@whetstone/messaging";
import { PoolLoadSchema } from "@whetstone/proto/events/v1/events";
import { createMetrics, silentLogger } from "@whetstone/telemetry";
import { startNats, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { installDefinitions } from "../support/cluster.ts";
import { JobStore } from "../../services/controller/src/jobs/job-store.ts";
import {
  ENVIRONMENT_POOLS,
  type EnvironmentPool,
  POOL_LABELS,
} from "../../services/controller/src/operator/environment-pool/schema.ts";
import { SAFE_TO_EVICT } from "../../services/controller/src/operator/environment-pool/evictions.ts";
import { startEnvironmentPools } from "../../services/controller/src/operator/environment-pool/reconciler.ts";
import type { OperatorParts } from "../../services/controller/src/operator/parts.ts";

const NAMESPACE = `c-evict-${process.pid}`;
const stack = new AsyncDisposableStack();
const stop = new AbortController();
let kube: Kube;
let nats: Nats;

beforeAll(async () => {
  installDefinitions();
  kube = stack.use(openKube({ logger: silentLogger, namespace: NAMESPACE }));
  await kube.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  const server = stack.use(await startNats());
  nats = stack.use(await server.connect());
  await ensurePlatform(nats);
  const metrics = createMetrics({ component: "test", processMetrics: false });
  const lead = { epoch: 1n, assert: () => undefined };
  const store = await JobStore.open(nats);
  store.mirror.follow(stop.signal).catch(() => undefined);
  const parts = { kube, nats, store, jobs: store.mirror, logger: silentLogger, metrics, tls: undefined, lead };
  stack.use(await startEnvironmentPools(parts as unknown as OperatorParts, stop.signal));
});
afterAll(async () => {
  stop.abort();
  await kube.delete(NAMESPACES, NAMESPACE);
  await stack.disposeAsync();
});

type Annotations = Readonly<Record<string, string>>;

async function makePool(name: string, replicas: number, annotations: Annotations = {}): Promise<void> {
  const container = { name: "env-runner", image: "nowhere.invalid/none:1" };
  const template = { metadata: { annotations }, spec: { nodeSelector: { fits: "nowhere" }, containers: [container] } };
  const object = { metadata: { name }, spec: { replicas, slotsPerWorker: 4, template } };
  await kube.create(ENVIRONMENT_POOLS, object as unknown as EnvironmentPool & { metadata: { name: string } });
}

const podsOf = async (pool: string): Promise<Stored<Pod>[]> =>
  (await kube.list(PODS, { labels: `${POOL_LABELS.pool}=${pool}` })).toSorted((a, b) =>
    a.metadata.name < b.metadata.name ? -1 : 1,
  );
const marksOf = async (pool: string) =>
  (await podsOf(pool)).map(({ metadata }) => metadata.annotations?.[SAFE_TO_EVICT]);

/** As an orchestrator does it while it plays. */
function tell(pool: string, sessions: Readonly<Record<string, number>>): void {
  const runners = Object.entries(sessions).map(([id, count]) => ({ id, sessions: count }));
  const load = create(PoolLoadSchema, { orchestrator: "o1", pool, runners });
  nats.publish(poolLoadSubject(pool), toBinary(PoolLoadSchema, load));
}

describe("pods of a pool", () => {
  it("may be evicted while nothing is open there, and cost one write when that changes", async () => {
    await makePool("web", 2);
    await waitFor(async () => (await marksOf("web")).length === 2, { timeoutMs: 20_000 });
    expect(await marksOf("web")).toEqual(["true", "true"]);
    const [, busy] = await podsOf("web");
    const id = busy?.metadata.uid ?? "";
    const told = setInterval(() => tell("web", { [id]: 1 + Math.floor(Math.random() * 4) }), 200);
    await waitFor(async () => (await marksOf("web"))[1] === "false", { timeoutMs: 20_000 });
    const version = (await podsOf("web"))[1]?.metadata.resourceVersion;
    await new Promise((done) => setTimeout(done, 11_000));
    clearInterval(told);
    expect(await marksOf("web")).toEqual(["true", "false"]);
    expect((await podsOf("web"))[1]?.metadata.resourceVersion).toBe(version);
  });

  it("keep what the pool's template says of it", async () => {
    await makePool("own", 1, { [SAFE_TO_EVICT]: "false" });
    await waitFor(async () => (await marksOf("own")).length === 1, { timeoutMs: 20_000 });
    expect(await marksOf("own")).toEqual(["false"]);
  });

  it("go when the pool is scaled in, and come again", async () => {
    const to = (replicas: number) =>
      kube.patch(ENVIRONMENT_POOLS, "web", { spec: { replicas } }, { subresource: "scale" });
    for (const replicas of [0, 3, 1]) {
      await to(replicas);
      await waitFor(async () => (await podsOf("web")).length === replicas, { timeoutMs: 30_000 });
    }
  });
});

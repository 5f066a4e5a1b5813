// SPDX-License-Identifier: Apache-2.0
// Engines that come and leave, on the cluster of KUBECONFIG. The pods fit no node: this test says how they are, and is the gateway.
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { type Kube, NAMESPACES, openKube, PODS } from "@whetstone/kube";
import { createMetrics, silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { installDefinitions } from "../support/cluster.ts";
import {
  INFERENCE_FLEETS,
  type InferenceFleet,
} from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { startInferenceFleets } from "../../services/controller/src/operator/inference-fleet/reconciler.ts";
import type { OperatorParts } from "../../services/controller/src/operator/parts.ts";

const NAMESPACE = `d-leave-${process.pid}`;
const stack = new AsyncDisposableStack();
const stop = new AbortController();
let kube: Kube;

/** The gateway's list, and what was asked of it. */
const known = new Map<string, { id: string; url: string; state: EngineState; inFlight: number; reason: string }>();
const removals: { readonly id: string; readonly drainMs: number; readonly podIsThere: boolean }[] = [];
let failures = 0;
const gateway = {
  listEngines: () => Promise.resolve({ engines: [...known.values()] }),
  registerEngine: ({ id, url }: { id: string; url: string }) => {
    known.set(id, { id, url, state: EngineState.FENCED, inFlight: 0, reason: "" });
    return Promise.resolve({});
  },
  removeEngine: async ({ id, drain }: { id: string; drain: { seconds: bigint } }) => {
    const podIsThere = (await kube.get(PODS, id.split("/")[1] ?? "")) !== undefined;
    removals.push({ id, drainMs: Number(drain.seconds) * 1000, podIsThere });
    if (failures-- > 0) throw new Error("the gateway is busy");
    known.delete(id);
    return { revoked: 0 };
  },
};

beforeAll(async () => {
  installDefinitions();
  kube = stack.use(openKube({ logger: silentLogger, namespace: NAMESPACE }));
  await kube.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  const fleet = { wanted: undefined, abandon: () => undefined };
  const metrics = createMetrics({ component: "test", processMetrics: false });
  const parts = { kube, fleet, fleetClient: gateway, logger: silentLogger, metrics, tls: undefined };
  stack.use(await startInferenceFleets(parts as unknown as OperatorParts, stop.signal));
});
afterAll(async () => {
  stop.abort();
  await kube.delete(NAMESPACES, NAMESPACE);
  await stack.disposeAsync();
});

async function makeFleet(name: string, replicas: number): Promise<void> {
  const template = { image: "nowhere.invalid/none:1", nodeSelector: { fits: "nowhere" } };
  const spec = { replicas, drainSeconds: 7, engine: {}, model: { path: "/none" }, template };
  const object = { metadata: { name }, spec } as unknown as InferenceFleet & { metadata: { name: string } };
  await kube.create(INFERENCE_FLEETS, object);
}

const podNames = async (fleet: string): Promise<string[]> =>
  (await kube.list(PODS, { labels: `whetstone.dev/fleet=${fleet}` })).map(({ metadata }) => metadata.name).toSorted();

/** As its node would say it. */
async function begin(pod: string): Promise<void> {
  const conditions = [{ type: "ContainersReady", status: "True" }];
  const status = { phase: "Running", podIP: "127.0.0.1", podIPs: [{ ip: "127.0.0.1" }], conditions };
  await kube.patch(PODS, pod, { status }, { subresource: "status" });
}

const scale = (fleet: string, replicas: number): Promise<unknown> =>
  kube.patch(INFERENCE_FLEETS, fleet, { spec: { replicas } }, { subresource: "scale" });
const soon = (condition: () => boolean | Promise<boolean>): Promise<unknown> =>
  waitFor(async () => condition(), { timeoutMs: 30_000 });

describe("engines of a fleet", () => {
  it("are made, told to the gateway when they live, drained there before their pod goes", async () => {
    await makeFleet("leaving", 2);
    await soon(async () => (await podNames("leaving")).length === 2);
    expect([...known.keys()]).toEqual([]);
    for (const pod of ["leaving-0", "leaving-1"]) await begin(pod);
    await soon(() => known.size === 2);
    expect(known.get("leaving/leaving-1")?.url).toBe("http://127.0.0.1:8000");

    failures = 1;
    await scale("leaving", 1);
    await soon(async () => (await podNames("leaving")).join() === "leaving-0");
    const asked = { id: "leaving/leaving-1", drainMs: 7_000, podIsThere: true };
    expect(removals).toEqual([asked, asked]);
    expect([...known.keys()]).toEqual(["leaving/leaving-0"]);
  });

  it("are forgotten when their fleet goes, and a pod of somebody else's is left alone", async () => {
    const foreign = {
      metadata: { name: "other-0" },
      spec: { containers: [{ name: "a", image: "nowhere.invalid/a:1" }] },
    };
    await kube.create(PODS, { ...foreign, spec: { ...foreign.spec, nodeSelector: { fits: "nowhere" } } });
    await makeFleet("other", 1);
    const reason = async () =>
      (await kube.get(INFERENCE_FLEETS, "other"))?.status?.conditions?.find(({ type }) => type === "Degraded")?.reason;
    await soon(async () => (await reason()) === "NameTaken");
    await kube.delete(INFERENCE_FLEETS, "other");
    await kube.delete(INFERENCE_FLEETS, "leaving");
    await soon(() => known.size === 0);
    expect(removals.at(-1)).toMatchObject({ id: "leaving/leaving-0", drainMs: 2_000 });
    expect(await kube.get(PODS, "other-0")).toBeDefined();
  });
});

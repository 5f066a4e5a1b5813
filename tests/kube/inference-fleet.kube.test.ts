// SPDX-License-Identifier: Apache-2.0
// InferenceFleet on the cluster of KUBECONFIG: real pods with the real engine, the real gateway beside the test.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { create } from "@bufbuild/protobuf";
import { type Kube, NAMESPACES, openKube, PODS, VOLUME_CLAIMS } from "@whetstone/kube";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { EngineState, FleetService } from "@whetstone/proto/inference/v1/inference";
import { createClient } from "@whetstone/rpc";
import { createLogger, createMetrics, silentLogger } from "@whetstone/telemetry";
import { freePort, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EngineFleet } from "../../services/controller/src/fleet/engine-fleet.ts";
import { everyGateway, type Gateways } from "../../services/controller/src/fleet/gateways/every-gateway.ts";
import { GatewayReplicas } from "../../services/controller/src/fleet/gateways/gateway-replicas.ts";
import {
  INFERENCE_FLEETS,
  type InferenceFleet,
} from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { LEADER_WORKER_SETS } from "../../services/controller/src/operator/inference-fleet/pods.ts";
import { borrow } from "../support/definitions.ts";
import { startInferenceFleets } from "../../services/controller/src/operator/inference-fleet/reconciler.ts";
import type { OperatorParts } from "../../services/controller/src/operator/parts.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const NAMESPACE = `d-fleet-${process.pid}`;
const IMAGE = `${process.env["REGISTRY"] || "localhost/whetstone"}/model-tools:${process.env["TAG"] || "dev"}`;
/** Pods mount their volume at this path of this machine, since gateway and engines are told of one folder. */
const DATA = mkdtempSync(join(tmpdir(), "whetstone-fleet-"));
const LOG = process.env["WHETSTONE_TEST_LOG"] ? createLogger({ component: "test", level: "debug" }) : silentLogger;
const MODEL = join(DATA, "models/policy");

const stack = new AsyncDisposableStack();
const stop = new AbortController();
let kube: Kube;
let gateway: Gateways;
let gatewayProcess: ChildProcess;
let ports: { http: number; grpc: number };
let engines: EngineFleet;
let operator: AsyncDisposable;

beforeAll(async () => {
  kube = stack.use(openKube({ logger: silentLogger, namespace: NAMESPACE }));
  await kube.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  // What a gateway reads of the model that engines make with the preset "tiny".
  cpSync(join(ROOT, "services/inference-gateway/test/tiny"), MODEL, { recursive: true });
  const claim = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
  await kube.create(VOLUME_CLAIMS, { metadata: { name: "data" }, spec: claim });
  ports = { http: await freePort(), grpc: await freePort() };
  gatewayProcess = await startGateway();
  const connect = (address: string) => createClient(FleetService, address);
  const replicas = new GatewayReplicas({ addresses: [`127.0.0.1:${ports.grpc}`], connect });
  gateway = stack.use(everyGateway(replicas, LOG));
  engines = new EngineFleet({ client: gateway, logger: LOG, onQuarantine: () => undefined });
  operator = await startOperator();
});

afterAll(async () => {
  stop.abort();
  await operator[Symbol.asyncDispose]();
  gatewayProcess.kill("SIGKILL");
  await kube.delete(NAMESPACES, NAMESPACE);
  await stack.disposeAsync();
  rmSync(DATA, { recursive: true });
});

function startOperator(): Promise<AsyncDisposable> {
  const metrics = createMetrics({ component: "test" });
  const parts = { kube, fleet: engines, fleetClient: gateway, logger: LOG, metrics, tls: undefined };
  return startInferenceFleets(parts as unknown as OperatorParts, stop.signal);
}

async function startGateway(): Promise<ChildProcess> {
  const env = {
    PATH: process.env["PATH"],
    WHETSTONE_HTTP_PORT: String(ports.http),
    WHETSTONE_GRPC_PORT: String(ports.grpc),
  };
  const main = `${ROOT}services/inference-gateway/src/main.ts`;
  const child = spawn(process.execPath, [main], { env, stdio: ["ignore", "ignore", "pipe"] });
  const lines = createInterface({ input: child.stderr });
  const ready = new Promise<void>((resolve) => lines.on("line", (line) => line.includes('"ready"') && resolve()));
  await Promise.race([ready, once(child, "exit").then(() => Promise.reject(new Error("the gateway ended")))]);
  return child;
}

/** An image without the present source is told where that is: for work on the engine. */
function template(): InferenceFleet["spec"]["template"] {
  const source = process.env["WHETSTONE_TEST_ENGINE_SOURCE"];
  const volume = { name: "source", hostPath: { path: source } };
  const packages = ["whetstone_engine", "whetstone_tls", "whetstone_models"];
  const mounts = packages.map((name) => ({ name: "source", mountPath: `/opt/whetstone/src/${name}`, subPath: name }));
  const development = source ? { volumes: [volume], volumeMounts: mounts } : {};
  const resources = { requests: { cpu: "10m", memory: "256Mi" } };
  return { image: IMAGE, imagePullPolicy: "IfNotPresent", terminationGracePeriodSeconds: 5, resources, ...development };
}

async function applyFleet(name: string, change: Partial<InferenceFleet["spec"]> = {}): Promise<void> {
  const spec = {
    model: { path: MODEL, init: { preset: "tiny", seed: 0 } },
    modelVolume: { claimName: "data", mountPath: DATA },
    drainSeconds: 5,
    updateTimeoutSeconds: 5,
    template: template(),
    ...change,
  } as InferenceFleet["spec"];
  await kube.apply(INFERENCE_FLEETS, { metadata: { name }, spec });
}

async function statusOf(name: string) {
  const status = (await kube.get(INFERENCE_FLEETS, name))?.status;
  const condition = (type: string) => status?.conditions?.find((one) => one.type === type);
  return {
    ready: status?.ready,
    states: status?.engines?.map(({ state }) => state).join(" "),
    is: (["Ready", "Degraded", "Progressing"] as const).map((type) => condition(type)?.status).join(" "),
    engines: status?.engines ?? [],
  };
}

const listed = async () => (await gateway.listEngines({})).engines;
const podNames = async () => (await kube.list(PODS)).map(({ metadata }) => metadata.name).sort();
const SETTLED = "True False False";
const LONG = { timeoutMs: 90_000, intervalMs: 200 };

describe("an InferenceFleet", () => {
  it("makes an engine, makes it known at both addresses, and is ready while it is idle", async () => {
    await applyFleet("f");
    await waitFor(async () => (await statusOf("f")).is === SETTLED, LONG);
    expect(await statusOf("f")).toMatchObject({ ready: "1/1", states: "Paused" });
    const [engine] = await listed();
    expect(engine).toMatchObject({ id: "f/f-0", state: EngineState.FENCED });
    expect((await fetch(`${engine!.url}/pause`, { method: "POST" })).status).toBe(403);
    expect((await fetch(`${engine!.controlUrl}/is_paused`)).status).toBe(200);
    const isReady = async () =>
      (await kube.get(PODS, "f-0"))?.status?.conditions?.some(
        ({ type, status }) => type === "Ready" && status === "True",
      );
    await waitFor(isReady, LONG);
  });

  it("serves a job's policy, scales to two by /scale, and both serve", async () => {
    await serve(1n);
    await waitFor(async () => (await statusOf("f")).states === "Serving", LONG);
    await kube.patch(INFERENCE_FLEETS, "f", { spec: { replicas: 2 } }, { subresource: "scale" });
    await waitFor(async () => (await statusOf("f")).states === "Serving Serving", LONG);
    expect(await statusOf("f")).toMatchObject({ is: SETTLED, ready: "2/2" });
    expect((await statusOf("f")).engines.map(({ policy, policyVersion }) => [policy, policyVersion])).toEqual([
      ["job", 1],
      ["job", 1],
    ]);
  });

  it("says what is wrong when an engine's process dies, and when it is back", async () => {
    const { controlUrl } = (await listed()).find(({ id }) => id === "f/f-1")!;
    const former = (await kube.get(PODS, "f-1"))?.status?.podIP;
    await kube.delete(PODS, "f-1", { graceSeconds: 0 });
    await waitFor(async () => (await statusOf("f")).engines[1]?.state === "Down", LONG);
    await waitFor(async () => (await statusOf("f")).states === "Serving Serving", LONG);
    const back = (await listed()).find(({ id }) => id === "f/f-1")!;
    expect((await kube.get(PODS, "f-1"))?.status?.podIP).not.toBe(former);
    expect(back.controlUrl).not.toBe(controlUrl);
  });

  it("calls an engine Stale that was paused behind everybody's back, and takes its readiness", async () => {
    const { controlUrl } = (await listed()).find(({ id }) => id === "f/f-0")!;
    await fetch(`${controlUrl}/pause`, { method: "POST" });
    await waitFor(async () => (await statusOf("f")).engines[0]?.state === "Stale", LONG);
    await waitFor(async () => (await statusOf("f")).is === "False True False", LONG);
    await fetch(`${controlUrl}/resume`, { method: "POST" });
    await waitFor(async () => (await statusOf("f")).is === SETTLED, LONG);
  });

  it("gives a gateway that was started again its engines", async () => {
    const ended = once(gatewayProcess, "exit");
    gatewayProcess.kill("SIGKILL");
    await ended;
    await waitFor(async () => (await statusOf("f")).is === "Unknown True False", LONG);
    gatewayProcess = await startGateway();
    await waitFor(async () => (await statusOf("f")).is === SETTLED, LONG);
    const known = (await listed()).map(({ id, state }) => `${id} ${state}`).sort();
    expect(known).toEqual([`f/f-0 ${EngineState.SERVING}`, `f/f-1 ${EngineState.SERVING}`]);
  });

  it("makes pods of a new template one at a time", async () => {
    let least = 2;
    const serving = async () => (await listed()).filter(({ state }) => state === EngineState.SERVING).length;
    const watching = setInterval(() => {
      void serving().then((count) => (least = Math.min(least, count)));
    }, 100);
    await applyFleet("f", { template: { ...template(), annotations: { a: "1" } } });
    const renewed = async () =>
      (await kube.list(PODS)).filter(({ metadata }) => metadata.annotations?.["a"] === "1").length;
    // What the status says may be some seconds old: the gateway knows.
    await waitFor(async () => (await renewed()) === 2 && (await serving()) === 2, LONG);
    clearInterval(watching);
    expect(least).toBe(1);
    await waitFor(async () => (await statusOf("f")).is === SETTLED, LONG);
  });

  it("drains what leaves, to one and to none", async () => {
    await kube.patch(INFERENCE_FLEETS, "f", { spec: { replicas: 1 } });
    await waitFor(async () => (await podNames()).join() === "f-0", LONG);
    expect((await listed()).map(({ id }) => id)).toEqual(["f/f-0"]);
    await kube.patch(INFERENCE_FLEETS, "f", { spec: { replicas: 0 } });
    await waitFor(async () => (await podNames()).length === 0 && (await statusOf("f")).is === SETTLED, LONG);
    expect(await listed()).toEqual([]);
  });

  it("leaves nothing behind when it is deleted", async () => {
    await kube.patch(INFERENCE_FLEETS, "f", { spec: { replicas: 1 } });
    await waitFor(async () => (await listed()).length === 1, LONG);
    await kube.delete(INFERENCE_FLEETS, "f");
    await waitFor(async () => (await podNames()).length === 0 && (await listed()).length === 0, LONG);
    await engines.release("job");
  });
});

describe("an InferenceFleet whose engines take several nodes", () => {
  const several = {
    nodesPerReplica: 2,
    replicas: 2,
    engine: { profile: "vllm" } as InferenceFleet["spec"]["engine"],
    template: { ...template(), proxyImage: IMAGE },
  };

  const condition = async () =>
    (await kube.get(INFERENCE_FLEETS, "big"))?.status?.conditions?.find(({ type }) => type === "Ready")?.reason;

  it("is refused where nothing makes such groups, and made by LeaderWorkerSet where that is installed", async () => {
    const isThere = await kube.has(LEADER_WORKER_SETS);
    await applyFleet("big", several);
    if (!isThere) await waitFor(async () => (await condition()) === "LeaderWorkerSetMissing", LONG);
    expect(await podNames()).toEqual([]);
    await using _definition = await borrow(kube, LEADER_WORKER_SETS);
    const found = await waitFor(() => kube.get(LEADER_WORKER_SETS, "big").catch(() => undefined), LONG);
    expect(found).toMatchObject({ spec: { replicas: 2, leaderWorkerTemplate: { size: 2 } } });
    await waitFor(async () => (await condition()) === "NotEnoughReady", LONG);
    await kube.delete(INFERENCE_FLEETS, "big");
    await waitFor(async () => (await kube.get(LEADER_WORKER_SETS, "big")) === undefined, LONG);
  });

  it("cannot be of our own engine", async () => {
    await expect(applyFleet("own", { nodesPerReplica: 2 })).rejects.toThrow("only the vllm profile");
  });
});

async function serve(version: bigint): Promise<void> {
  const policy = create(PolicyRecordSchema, { job: "job", policyVersion: version, path: MODEL });
  await engines.serve(policy, stop.signal);
}

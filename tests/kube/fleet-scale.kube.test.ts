// SPDX-License-Identifier: Apache-2.0
// Engines come and go on pods while a job trains: 1 → 2 → 1, and one is deleted. Nothing may be lost.
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { auditJob } from "@whetstone/audit";
import { type Kube, NAMESPACES, openKube, PODS } from "@whetstone/kube";
import { connectNats } from "@whetstone/messaging";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EngineState, FleetService, FleetViewService } from "@whetstone/proto/inference/v1/inference";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INFERENCE_FLEETS } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { type Controller, setStage, type Stage } from "../support/controllers.ts";
import { fleetSpec } from "../support/engine-fleet.ts";
import { smallJob } from "../support/local-runtime.ts";

const JOB = "scaled";
// More than any machine trains meanwhile: the test ends it.
const STEPS = 10_000;
const LONG = { timeoutMs: 120_000, intervalMs: 200 };

describe("an InferenceFleet that is scaled while a job trains", () => {
  const namespace = `d-scale-${process.pid}`;
  let kube: Kube;
  let stage: Stage;
  let controller: Controller;
  let jobs: RpcClient<typeof JobService>;
  let gateway: RpcClient<typeof FleetService>;

  beforeAll(async () => {
    kube = openKube({ logger: silentLogger, namespace });
    await kube.create(NAMESPACES, { metadata: { name: namespace } });
    stage = await setStage(namespace, 0);
    // Pods run as another user.
    chmodSync(stage.data, 0o755);
    controller = await stage.startController("a");
    jobs = createClient(JobService, controller.address);
    gateway = createClient(FleetService, `127.0.0.1:${stage.port("gateway", "grpc")}`);
    await kube.apply(INFERENCE_FLEETS, { metadata: { name: "f" }, spec: fleetSpec(stage) });
  });
  afterAll(async () => {
    await kube.delete(NAMESPACES, namespace);
    // The controller has to let go of the job.
    await waitFor(async () => !(await kube.get(NAMESPACES, namespace)), LONG);
    await jobs[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
    await stage[Symbol.asyncDispose]();
    kube[Symbol.dispose]();
  }, 150_000);

  const stepOf = async (): Promise<number> => (await jobs.getJob({ name: JOB })).job?.status?.step ?? 0;
  const states = async (): Promise<string> =>
    ((await kube.get(INFERENCE_FLEETS, "f"))?.status?.engines ?? []).map(({ state }) => state).join(" ");
  const scale = (replicas: number) =>
    kube.patch(INFERENCE_FLEETS, "f", { spec: { replicas } }, { subresource: "scale" });
  const engines = async () => (await gateway.listEngines({})).engines;
  const engineOf = async (wanted: string) => (await engines()).find(({ id }) => id === wanted);

  /** Seconds until something holds. */
  async function seconds(holds: () => Promise<boolean>): Promise<number> {
    const startedAt = performance.now();
    await waitFor(holds, LONG);
    return Math.round((performance.now() - startedAt) / 100) / 10;
  }

  it("loses nothing", async () => {
    await jobs.submitJob({ spec: fromJson(JobSpecSchema, smallJob(JOB, stage.model, { steps: STEPS, lag: 1 })) });
    await waitFor(async () => (await stepOf()) >= 3, LONG);

    await scale(2);
    const up = await seconds(async () => (await states()) === "Serving Serving");
    await waitFor(async () => (await engines()).every(({ policy }) => (policy?.policyVersion ?? 0n) > 3n), LONG);

    // The fleet's status may lag behind the deletion: the gateway says when the successor serves.
    const former = (await engineOf("f/f-0"))?.url;
    await kube.delete(PODS, "f-0", { graceSeconds: 0 });
    const back = await seconds(async () => {
      const engine = await engineOf("f/f-0");
      return engine?.state === EngineState.SERVING && engine.url !== former;
    });

    await using view = createClient(FleetViewService, controller.address);
    const { fleets, policies } = await view.listFleets({});
    expect(policies).toMatchObject([{ policy: JOB }]);
    expect(fleets).toMatchObject([{ name: "f", wanted: 2, replicas: [{ name: "f-0" }, { name: "f-1" }] }]);
    await view.scaleFleet({ name: "f", replicas: 1 });
    const down = await seconds(async () => !(await isThere("f-1")));
    expect((await engines()).map(({ id }) => id)).toEqual(["f/f-0"]);
    const scaledAt = await stepOf();

    await waitFor(async () => (await stepOf()) >= scaledAt + 5, LONG);
    await jobs.suspendJob({ name: JOB });
    await waitFor(async () => (await jobs.getJob({ name: JOB })).job?.status?.phase === JobPhase.SUSPENDED, LONG);
    const report = await audit();
    console.log(
      JSON.stringify({ secondsToTwo: up, secondsAfterDelete: back, secondsToOne: down, scaledAt, ...report }),
    );
  }, 400_000);

  async function isThere(name: string): Promise<boolean> {
    return (await kube.get(PODS, name)) !== undefined;
  }

  async function audit(): Promise<object> {
    const servers = `nats://127.0.0.1:${stage.port("nats", "nats")}`;
    await using connection = await connectNats({ servers, name: "test", logger: silentLogger });
    const signal = AbortSignal.timeout(60_000);
    const result = await auditJob(JOB, { connection, runsFolder: join(stage.data, "runs"), signal });
    const { lost, duplicated, stale, unlabelled, trained } = result;
    expect({ lost, duplicated, stale, unlabelled }).toEqual({ lost: 0, duplicated: 0, stale: 0, unlabelled: 0 });
    return { lost, duplicated, stale, unlabelled, trained };
  }
});

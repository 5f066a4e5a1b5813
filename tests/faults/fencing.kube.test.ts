// SPDX-License-Identifier: Apache-2.0
// The leader is stopped (SIGSTOP) while it trains a job; another takes over; then the old one wakes up. Nothing that it does,
// and nothing that anybody does in its name, may have an effect.
import { create, fromJson } from "@bufbuild/protobuf";
import { auditJob } from "@whetstone/audit";
import { LEASES, NAMESPACES, openKube, type Kube } from "@whetstone/kube";
import { connectNats, LEDGER_BUCKET, type Nats, openKv } from "@whetstone/messaging";
import {
  BatchManifestSchema,
  DispatchRecordSchema,
  EpochRecordSchema,
  PolicyRecordSchema,
} from "@whetstone/proto/events/v1/events";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { JobPhase, JobService, JobSpecSchema, StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KvLedger } from "../../services/controller/src/loop/batch/kv-ledger.ts";
import { TRAINING_JOBS } from "../../services/controller/src/operator/training-job/schema.ts";
import { type Controller, setStage, type Stage } from "../support/controllers.ts";
import { smallJob } from "../support/local-runtime.ts";

const JOB = "fenced";
const STEPS = 40;
const TAKEOVER_MS = 20_000;

interface Epochs {
  readonly leader: bigint;
  readonly job: bigint;
}

describe("a leader that sleeps and wakes up", () => {
  const namespace = `a-fence-${process.pid}`;
  let kube: Kube;
  let stage: Stage;
  let nats: Nats;
  const controllers: Controller[] = [];

  beforeAll(async () => {
    kube = openKube({ logger: silentLogger, namespace });
    await kube.create(NAMESPACES, { metadata: { name: namespace } });
    stage = await setStage(namespace);
    nats = await connectNats({
      servers: `nats://127.0.0.1:${stage.port("nats", "nats")}`,
      name: "test",
      logger: silentLogger,
    });
    controllers.push(await stage.startController("a"));
    await waitFor(async () => (await leaderName()) === "a", { timeoutMs: 20_000 });
    controllers.push(await stage.startController("b"));
  });
  afterAll(async () => {
    await nats[Symbol.asyncDispose]();
    await stage[Symbol.asyncDispose]();
    // Nobody is left to take the finalizers off, and the namespace would wait for that.
    for (const { metadata } of await kube.list(TRAINING_JOBS))
      await kube.patch(TRAINING_JOBS, metadata.name, { metadata: { finalizers: null } });
    await kube.delete(NAMESPACES, namespace);
    kube[Symbol.dispose]();
  });

  const controller = (name: string): Controller => controllers.find((each) => each.name === name) as Controller;

  /** Which of our controllers the Lease names. */
  async function leaderName(): Promise<string | undefined> {
    const lease = await kube.get(LEASES, "whetstone-controller");
    const pid = Number(lease?.spec?.holderIdentity?.split("_").at(-2));
    return controllers.find((each) => each.pid === pid)?.name;
  }

  async function epochs(): Promise<Epochs> {
    const kv = await openKv(nats, LEDGER_BUCKET, EpochRecordSchema);
    const read = async (key: string): Promise<bigint> => (await kv.get(key))?.value.epoch ?? 0n;
    return { leader: await read("_leader.epoch"), job: await read(`${JOB}.epoch`) };
  }

  const jobsOf = (name: string): RpcClient<typeof JobService> => createClient(JobService, controller(name).address);

  it("is refused by the ledger, the gateway, the engine and the trainer, and its process ends", async () => {
    await using standby = jobsOf("b");
    const spec = fromJson(JobSpecSchema, smallJob(JOB, stage.model, { steps: STEPS, lag: 1 }));
    await standby.submitJob({ spec });
    const stepOf = async (): Promise<number> => (await standby.getJob({ name: JOB })).job?.status?.step ?? 0;
    await waitFor(async () => (await stepOf()) >= 3, { timeoutMs: 60_000 });
    const old = await epochs();

    controller("a").kill("SIGSTOP");
    const stoppedAt = performance.now();
    await waitFor(async () => (await epochs()).job > old.job, { timeoutMs: TAKEOVER_MS });
    const tookMs = performance.now() - stoppedAt;
    expect(await leaderName()).toBe("b");
    const seen = await stepOf();
    await waitFor(async () => (await stepOf()) > seen + 1, { timeoutMs: 60_000 });
    expect((await epochs()).leader).toBeGreaterThan(old.leader);

    await refusedEverywhere(old);

    controller("a").kill("SIGCONT");
    const wokeAt = performance.now();
    await waitFor(() => controller("a").exit() !== undefined);
    const endedMs = performance.now() - wokeAt;
    expect(controller("a").exit()?.code).toBe(1);
    expect(
      controller("a")
        .log()
        .map(({ event }) => event),
    ).toContain("stopped_leading");

    await waitFor(async () => (await standby.getJob({ name: JOB })).job?.status?.phase === JobPhase.SUCCEEDED, {
      timeoutMs: 120_000,
    });
    expect(await stepOf()).toBe(STEPS);
    expect((await epochs()).job).toBe(old.job + 1n);
    const { report } = await audit();
    expect(report).toMatchObject({ lost: 0, duplicated: 0, stale: 0, unlabelled: 0 });
    console.log(JSON.stringify({ takeoverMs: Math.round(tookMs), endedAfterWakingMs: Math.round(endedMs), ...report }));
  }, 240_000);

  it("hands over at once when the leader is told to stop", async () => {
    controllers.push(await stage.startController("c"));
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const before = await epochs();
    controller("b").kill("SIGTERM");
    const startedAt = performance.now();
    await waitFor(async () => (await epochs()).leader > before.leader);
    expect(performance.now() - startedAt).toBeLessThan(8000); // A lease ends after 15 s.;
    expect(await leaderName()).toBe("c");
    await waitFor(() => controller("b").exit() !== undefined);
    expect(controller("b").exit()?.code).toBe(0);
  });

  async function audit(): Promise<{ report: { lost: number; duplicated: number; stale: number; unlabelled: number } }> {
    const signal = AbortSignal.timeout(60_000);
    const result = await auditJob(JOB, { connection: nats, runsFolder: join(stage.data, "runs"), signal });
    const { lost, duplicated, stale, unlabelled } = result;
    expect(result).toMatchObject({ dispatched: STEPS * 32, trained: STEPS * 32, inFlight: 0 });
    return { report: { lost, duplicated, stale, unlabelled } };
  }

  /** What the old leader would do next, done in its name by clients that do not look at any clock. */
  async function refusedEverywhere(old: Epochs): Promise<void> {
    const stale = { code: "STALE_EPOCH" };
    const ledger = await KvLedger.resume(nats, JOB, old.job);
    const former = await ledger.policy();
    await expect(ledger.savePolicy(create(PolicyRecordSchema, { job: JOB, path: "/stale" }))).rejects.toMatchObject(
      stale,
    );
    await expect(ledger.saveDispatch(create(DispatchRecordSchema, { job: JOB, step: 999 }))).rejects.toMatchObject(
      stale,
    );
    await expect(ledger.saveStep(create(StepRecordSchema, { step: 999 }))).rejects.toMatchObject(stale);
    await expect(ledger.createManifest(create(BatchManifestSchema, { job: JOB, step: 999 }))).rejects.toMatchObject(
      stale,
    );
    expect((await ledger.policy())?.path).not.toBe("/stale");
    expect(former?.path).toBeDefined();

    await using fleet = createClient(FleetService, `127.0.0.1:${stage.port("gateway", "grpc")}`);
    const epoch = old.leader;
    await expect(fleet.fenceEngine({ id: "e0", epoch })).rejects.toMatchObject(stale);
    await expect(
      fleet.unfenceEngine({
        id: "e0",
        epoch,
        policy: { policy: JOB, policyVersion: 0n, label: `${JOB}:0`, modelPath: stage.model },
      }),
    ).rejects.toMatchObject(stale);
    await expect(fleet.forgetPolicy({ policy: JOB, epoch })).rejects.toMatchObject(stale);

    const engine = `http://127.0.0.1:${stage.port("engine-0", "http")}`;
    for (const path of ["/pause", "/stage_weights", "/collective_rpc", "/update_weight_version", "/resume"]) {
      const answer = await fetch(engine + path, {
        method: "POST",
        headers: { "whetstone-epoch": String(epoch) },
        body: "{}",
      });
      expect([path, answer.status, await answer.text()]).toEqual([path, 409, expect.stringContaining("StaleEpoch")]);
    }

    await using trainer = createClient(TrainerService, `127.0.0.1:${stage.port("trainer", "grpc")}`);
    const manifest = await ledger.manifest(0);
    const training = async (): Promise<void> => {
      for await (const _ of trainer.trainStep({ epoch: old.job, manifest: manifest as Uint8Array<ArrayBuffer> }));
    };
    await expect(training()).rejects.toMatchObject(stale);
  }
});

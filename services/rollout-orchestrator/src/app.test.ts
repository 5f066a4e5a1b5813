// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { join } from "node:path";
import { create, fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { loadConfig } from "@whetstone/core";
import {
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  episodeSubject,
  episodeTaskSubject,
  JOBS_BUCKET,
  type Nats,
  openKv,
  openStreams,
  sha256Hex,
  type TypedStreams,
} from "@whetstone/messaging";
import { type RolloutTask, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { JobPhase, JobSchema, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import {
  type Episode,
  EpisodeSchema,
  EpisodeSummarySchema,
  FailureClass,
  Purpose,
  TerminationReason,
} from "@whetstone/proto/types/v1/types";
import { silentLogger } from "@whetstone/telemetry";
import { startNats, type TestNats, waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../test-support/env-runner-process.ts";
import { type FakeAnswer, type FakeGateway, type SeenCall, startFakeGateway } from "../test-support/fake-gateway.ts";
import { type OrchestratorApp, startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

let server: TestNats;
let nats: Nats;
let streams: TypedStreams;
let environments: EnvRunnerProcess;
let gateway: FakeGateway;
let script: (call: SeenCall) => FakeAnswer;
const apps: OrchestratorApp[] = [];
const jobs: string[] = [];
let jobCount = 0;

beforeAll(async () => {
  [server, environments] = await Promise.all([startNats(), startEnvRunner()]);
  nats = await server.connect();
  await ensurePlatform(nats);
  streams = await openStreams(nats);
});

afterAll(async () => {
  await nats[Symbol.asyncDispose]();
  await Promise.all([server[Symbol.asyncDispose](), environments[Symbol.asyncDispose]()]);
});

beforeEach(async () => {
  script = () => ({ text: "R" });
  gateway = await startFakeGateway((call) => script(call));
});

afterEach(async () => {
  for (const job of jobs.splice(0)) await setPhase(job, JobPhase.SUCCEEDED);
  await Promise.all(apps.splice(0).map((app) => app.close()));
  await gateway[Symbol.asyncDispose]();
});

async function start(settings: Record<string, unknown> = {}): Promise<OrchestratorApp> {
  const overrides = {
    grpcPort: 0,
    natsUrl: server.url,
    gatewayUrl: gateway.url,
    envAddress: environments.address,
    ackWaitMs: 1_000,
    ...settings,
  };
  const app = await startApp(loadConfig(ConfigSchema, { env: {}, overrides }), { logger: silentLogger });
  apps.push(app);
  return app;
}

async function setPhase(job: string, phase: JobPhase, wish: JobWish = JobWish.RUN): Promise<void> {
  const bucket = await openKv(nats, JOBS_BUCKET, JobSchema);
  await bucket.put(job, { spec: { name: job }, wish, status: { phase } });
}

async function newJob(limits: Parameters<typeof ensureJobStreams>[2] = {}): Promise<string> {
  const job = `job-${(jobCount += 1)}`;
  jobs.push(job);
  await ensureJobStreams(nats, job, limits);
  await setPhase(job, JobPhase.RUNNING);
  return job;
}

type Fields = Omit<Exclude<MessageInitShape<typeof RolloutTaskSchema>, RolloutTask>, "$typeName">;

function taskOf(job: string, sample: number, fields: Fields = {}): RolloutTask {
  const group = "g0";
  return create(RolloutTaskSchema, {
    episodeId: `${job}/${group}/s${sample}`,
    job,
    group,
    sample,
    purpose: Purpose.TRAIN,
    task: { id: "seed-5", payload: { seed: 5 } },
    seed: BigInt(100 + sample),
    agent: { kind: "frozenlake", args: { variant: "compact" } },
    environment: { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 8 } },
    model: job,
    ...fields,
  });
}

async function send(task: RolloutTask): Promise<void> {
  await streams.publish(episodeTaskSubject(task.job, task.group, task.sample), RolloutTaskSchema, task);
}

async function sealed(job: string, sample: number, timeoutMs = 10_000) {
  const subject = episodeSubject(job, "g0", sample);
  const found = await waitFor(() => streams.getLast(episodeStream(job), EpisodeSchema, subject), { timeoutMs });
  const header = found.headers["Whetstone-Summary"] ?? "";
  const summary = fromBinary(EpisodeSummarySchema, Buffer.from(header, "base64"));
  return { found, episode: await found.body(), bytes: await found.bytes(), summary };
}

function stepsOf(episode: Episode) {
  return episode.trajectories[0]?.steps ?? [];
}

describe("an episode", () => {
  it("is played, sealed with its calls and summary, and its task is acknowledged", async () => {
    const app = await start();
    const job = await newJob();
    await send(taskOf(job, 0));
    const { found, episode, bytes, summary } = await sealed(job, 0);
    expect(found.msgId).toBe(`${job}/g0/s0`);
    expect(summary.digest).toBe(sha256Hex(bytes));
    expect(episode).toMatchObject({ id: `${job}/g0/s0`, job, group: "g0", sample: 0, attempt: 1, seed: 100n });
    expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
    expect(stepsOf(episode).map(({ callId }) => callId)).toEqual(episode.calls.map(({ id }) => id));
    expect(stepsOf(episode)[0]).toMatchObject({ action: "Right", modelResponse: "R" });
    expect(summary).toMatchObject({ minPolicyVersion: 3n, maxPolicyVersion: 3n, unlabelledTokens: 0 });
    expect(summary.sampledTokens).toBe(stepsOf(episode).length);
    expect(gateway.seen.every(({ body }) => body.messages.length === 1)).toBe(true);
    expect(gateway.sessions.size).toBe(0);
    await waitFor(() => app.inFlight === 0);
    await expect(tasksLeft(job)).resolves.toBe(0);
  });

  it("gives every call its own seed, the same in every attempt", async () => {
    await start();
    const job = await newJob();
    script = () => ({ text: "?" });
    await send(taskOf(job, 1));
    await sealed(job, 1);
    const seeds = gateway.seen.map(({ body }) => body.seed);
    expect(new Set(seeds).size).toBe(5);
    gateway.seen.length = 0;
    await send(taskOf(job, 2, { seed: 101n }));
    await sealed(job, 2);
    expect(gateway.seen.map(({ body }) => body.seed)).toEqual(seeds);
  });

  it("keeps rLLM's conversation with the standard agent", async () => {
    await start();
    const job = await newJob();
    script = () => ({ text: "I go.\n```Up```" });
    const environment = { kind: "frozenlake", args: { size: 4 } };
    await send(taskOf(job, 0, { agent: { kind: "frozenlake" }, environment }));
    const { episode } = await sealed(job, 0);
    const roles = gateway.seen[1]?.body.messages.map(({ role }) => role);
    expect(stepsOf(episode)[0]?.action).toBe("Up");
    if (stepsOf(episode).length > 1) expect(roles).toEqual(["system", "user", "assistant", "user"]);
    expect(gateway.seen[0]?.body.messages[1]?.content).toMatch(/^Current Observation \(0\): \n/);
  });
});

async function tasksLeft(job: string): Promise<number> {
  const { jetstreamManager } = await import("@nats-io/jetstream");
  const manager = await jetstreamManager(nats);
  return (await manager.streams.info(`WS_TASK_${job}`)).state.messages;
}

describe("failures are data", () => {
  it("seals a broken task as TASK, unplayed, with the field's path", async () => {
    await start();
    const job = await newJob();
    await send(taskOf(job, 0, { environment: { kind: "frozenlake", args: { size: 99 } } }));
    const { episode, summary } = await sealed(job, 0);
    expect(episode.terminationReason).toBe(TerminationReason.ERROR);
    expect(summary.failureClass).toBe(FailureClass.TASK);
    expect(summary.failureMessage).toContain("args.size");
  });

  it("seals an unknown agent as TASK", async () => {
    await start();
    const job = await newJob();
    await send(taskOf(job, 0, { agent: { kind: "nobody" } }));
    expect((await sealed(job, 0)).summary.failureClass).toBe(FailureClass.TASK);
  });

  it("seals an episode that hangs as DEADLINE, with the calls so far, and aborts the call", async () => {
    await start();
    const job = await newJob();
    script = () => (gateway.seen.length === 1 ? { text: "?" } : { text: "", delayMs: Number.POSITIVE_INFINITY });
    await send(taskOf(job, 0, { limits: { episodeTimeout: durationFromMs(400) } }));
    const { episode } = await sealed(job, 0);
    expect(episode.terminationReason).toBe(TerminationReason.DEADLINE);
    expect(episode.failure).toMatchObject({ failureClass: FailureClass.DEADLINE, phase: "model" });
    expect(episode.calls).toHaveLength(1);
    await waitFor(() => gateway.aborted === 1);
  });

  it("plays again when the gateway lost the session, and counts only the last try", async () => {
    await start();
    const job = await newJob();
    script = () => {
      if (gateway.seen.length === 3) gateway.forget();
      return { text: "?" };
    };
    await send(taskOf(job, 0));
    const { episode } = await sealed(job, 0);
    expect(new Set(gateway.seen.map(({ session }) => session)).size).toBe(2);
    expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
    expect(episode.calls).toHaveLength(5);
  });

  it("is INFRASTRUCTURE, never reward 0 in silence, when the retries are used up", async () => {
    await start();
    const job = await newJob();
    script = () => ({ text: "boom", status: 500 });
    await send(taskOf(job, 0, { limits: { retryLimit: 1 } }));
    const { summary } = await sealed(job, 0);
    expect(summary.failureClass).toBe(FailureClass.INFRASTRUCTURE);
    expect(gateway.seen).toHaveLength(2);
  });
});

describe("delivery", () => {
  it("takes a second seal of the same episode as done", async () => {
    const job = await newJob();
    await send(taskOf(job, 0));
    await start();
    const first = await sealed(job, 0);
    await send(taskOf(job, 0));
    await waitFor(async () => gateway.seen.length > first.episode.calls.length && (await tasksLeft(job)) === 0);
    expect((await sealed(job, 0)).found.sequence).toBe(first.found.sequence);
  });

  it("plays a task of a lost replica again: same id, same seed, attempt + 1", async () => {
    const job = await newJob();
    script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await using lost = await startProcess();
    await send(taskOf(job, 0));
    await waitFor(() => gateway.seen.length === 1);
    await lost.kill();
    script = () => ({ text: "?" });
    await start();
    const { episode } = await sealed(job, 0, 15_000);
    expect(episode).toMatchObject({ id: `${job}/g0/s0`, attempt: 2, seed: 100n });
    expect(gateway.seen[1]?.body.seed).toBe(gateway.seen[0]?.body.seed);
    expect(gateway.seen[1]?.session).not.toBe(gateway.seen[0]?.session);
  });

  it("hands tasks back at once when it is stopped", async () => {
    const job = await newJob();
    script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    const app = await start({ ackWaitMs: 60_000 });
    await send(taskOf(job, 0));
    await waitFor(() => gateway.seen.length === 1);
    const startedAt = performance.now();
    await app.close();
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    script = () => ({ text: "?" });
    await start({ ackWaitMs: 60_000 });
    expect((await sealed(job, 0)).episode.attempt).toBe(2);
  });

  it("aborts and ends the tasks of a cancelled job, and keeps those of a suspended one", async () => {
    const app = await start();
    const job = await newJob();
    script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await send(taskOf(job, 0));
    await waitFor(() => app.inFlight === 1);
    await setPhase(job, JobPhase.SUSPENDED);
    await waitFor(() => app.inFlight === 0);
    await expect(tasksLeft(job)).resolves.toBe(1);
    await setPhase(job, JobPhase.RUNNING);
    await waitFor(() => app.inFlight === 1);
    await setPhase(job, JobPhase.RUNNING, JobWish.CANCEL);
    await waitFor(async () => app.inFlight === 0 && (await tasksLeft(job)) === 0);
    expect(await streams.getLast(episodeStream(job), EpisodeSchema, episodeSubject(job, "g0", 0))).toBeUndefined();
  });

  it("does not take tasks of a queued job", async () => {
    const app = await start();
    const job = await newJob();
    await setPhase(job, JobPhase.QUEUED);
    const other = await newJob();
    await send(taskOf(job, 0));
    await send(taskOf(other, 0));
    await sealed(other, 0);
    expect(app.jobs).toEqual([other]);
    await expect(tasksLeft(job)).resolves.toBe(1);
  });

  it("drops tasks of an older epoch than the newest seen", async () => {
    await start();
    const job = await newJob();
    await send(taskOf(job, 0, { epoch: 2n }));
    await sealed(job, 0);
    await send(taskOf(job, 1, { epoch: 1n }));
    await waitFor(async () => (await tasksLeft(job)) === 0);
    expect(await streams.getLast(episodeStream(job), EpisodeSchema, episodeSubject(job, "g0", 1))).toBeUndefined();
  });

  it("waits while the EPISODE stream is full", async () => {
    await start();
    const job = await newJob({ maxEpisodeBytes: 2_000 });
    for (const sample of [0, 1, 2]) await send(taskOf(job, sample));
    await sealed(job, 0, 1_000).catch(() => undefined); // How many fit is the server's business.
    await expect(tasksLeft(job)).resolves.toBeGreaterThan(0);
    await ensureJobStreams(nats, job, { maxEpisodeBytes: 1024 * 1024 });
    for (const sample of [0, 1, 2]) expect((await sealed(job, sample)).summary.failureClass).toBe(FailureClass.NONE);
  });
});

describe("demonstrations", () => {
  it("are rendered by the gateway: no agent, no environment, reward 0", async () => {
    await start();
    const job = await newJob();
    const demonstration = [
      { role: "user", content: "P_G" },
      { role: "assistant", content: "R" },
    ];
    await send(taskOf(job, 0, { purpose: Purpose.DEMONSTRATION, task: { id: "d", demonstration } }));
    const { episode, summary } = await sealed(job, 0);
    expect(summary).toMatchObject({ sampledTokens: 0, demonstrationTokens: 2, promptTokens: 7, reward: 0 });
    expect(episode.trajectories).toEqual([]);
    expect(episode.calls).toHaveLength(1);
    expect(summary.minPolicyVersion).toBeUndefined();
  });
});

/** A replica in its own process, to be killed. */
async function startProcess(): Promise<AsyncDisposable & { readonly kill: () => Promise<void> }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts")], {
    stdio: "ignore",
    env: {
      PATH: process.env["PATH"] ?? "",
      WHETSTONE_GRPC_PORT: "0",
      WHETSTONE_NATS_URL: server.url,
      WHETSTONE_GATEWAY_URL: gateway.url,
      WHETSTONE_ENV_ADDRESS: environments.address,
      WHETSTONE_ACK_WAIT_MS: "1000",
    },
  });
  const kill = (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
    return new Promise((resolve) => {
      child.once("exit", () => {
        resolve();
      });
      child.kill("SIGKILL");
    });
  };
  return { kill, [Symbol.asyncDispose]: kill };
}

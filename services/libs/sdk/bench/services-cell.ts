// SPDX-License-Identifier: Apache-2.0
// One cell of the bench's table, through the services: tasks by JetStream, a real orchestrator, env-runner and gateway,
// each a process, and sealed episodes at the end. Only the engine is scripted.
import { join } from "node:path";
import { create, fromBinary } from "@bufbuild/protobuf";
import {
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  episodeTaskSubject,
  JOBS_BUCKET,
  type Nats,
  openKv,
  openStreams,
  type TypedStreams,
} from "@whetstone/messaging";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EpisodeSchema, EpisodeSummarySchema, FailureClass, Purpose } from "@whetstone/proto/types/v1/types";
import { createClient } from "@whetstone/rpc";
import { startNats } from "@whetstone/testkit";
import { cpuMs, residentKiB, start, type Started } from "./processes.ts";

const SERVICES = join(import.meta.dirname, "../../..");
const TINY = join(SERVICES, "inference-gateway/test/tiny");
const READY = /"address":"([^"]+)"[^\n]*"event":"ready"/;
const GATEWAY_READY = /(\{[^\n]*"httpUrl"[^\n]*"event":"ready"[^\n]*\})/;
/** Of the random walk: what an episode lasts on average, about. */
const TURNS_AN_EPISODE = 3.5;
const POLICY = "bench";

export interface ServicesCell {
  /** Of the scripted engine, whose tokens carry the label "bench:1". */
  readonly engineUrl: string;
  readonly concurrency: number;
  readonly leastTurns: number;
}

const NAMES = ["orchestrator", "envRunner", "gateway"] as const;
type Services = Readonly<Record<(typeof NAMES)[number], Started>>;

function startService(name: string, env: Record<string, string>, ready: RegExp): Promise<Started> {
  const flags = ["--import", join(import.meta.dirname, "loop-probe.ts")];
  const settings = { WHETSTONE_GRPC_PORT: "0", ...env };
  return start(join(SERVICES, name, "src/main.ts"), [], ready, { core: 0, flags, env: settings });
}

async function startGateway(engineUrl: string): Promise<{ service: Started; url: string }> {
  const env = {
    WHETSTONE_HTTP_PORT: "0",
    WHETSTONE_ENGINES: `e0=${engineUrl}`,
    WHETSTONE_MAX_IN_FLIGHT_PER_ENGINE: "16384",
    WHETSTONE_MAX_WAITING: "16384",
  };
  const service = await startService("inference-gateway", env, GATEWAY_READY);
  const { httpUrl, grpcAddress } = JSON.parse(service.found) as { httpUrl: string; grpcAddress: string };
  await using fleet = createClient(FleetService, grpcAddress);
  await fleet.unfenceEngine({
    id: "e0",
    policy: { policy: POLICY, policyVersion: 1n, label: "bench:1", modelPath: TINY },
  });
  return { service, url: httpUrl };
}

async function dispatch(nats: Nats, streams: TypedStreams, job: string, episodes: number): Promise<void> {
  await ensureJobStreams(nats, job, { maxTasks: episodes + 1 });
  const publish = (i: number) => {
    const task = create(RolloutTaskSchema, {
      episodeId: `${job}/g${i >> 3}/s${i % 8}`,
      job,
      group: `g${i >> 3}`,
      sample: i % 8,
      purpose: Purpose.TRAIN,
      task: { id: `seed-${i >> 3}`, payload: { seed: i >> 3 } },
      seed: BigInt(i),
      agent: { kind: "frozenlake", args: { variant: "compact" } },
      environment: { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 5 } },
      model: POLICY,
    });
    return streams.publish(episodeTaskSubject(job, task.group, task.sample), RolloutTaskSchema, task);
  };
  for (let i = 0; i < episodes; i += 200) {
    await Promise.all(Array.from({ length: Math.min(200, episodes - i) }, (_, at) => publish(i + at)));
  }
}

/** Reads summaries until all episodes are sealed. */
async function awaitEpisodes(streams: TypedStreams, job: string, episodes: number) {
  const totals = { episodes, turns: 0, failed: 0 };
  let left = episodes;
  const options = { headersOnly: true, prefetch: 2048 };
  for await (const { headers } of streams.readFrom(episodeStream(job), EpisodeSchema, options)) {
    const summary = fromBinary(EpisodeSummarySchema, Buffer.from(headers["Whetstone-Summary"] ?? "", "base64"));
    totals.turns += summary.steps;
    if (summary.failureClass !== FailureClass.NONE) totals.failed += 1;
    if ((left -= 1) === 0) break;
  }
  return totals;
}

/** Lateness of a service's event loop since it was asked last, milliseconds. */
function loopDelay({ child, pid }: Started): Promise<{ p99: number; max: number }> {
  return new Promise((resolve) => {
    let text = "";
    const read = (chunk: Buffer): void => {
      text += chunk.toString();
      const found = /loop-probe (\{.*\})\n/.exec(text)?.[1];
      if (found === undefined) return;
      child.stderr?.off("data", read);
      resolve(JSON.parse(found) as { p99: number; max: number });
    };
    child.stderr?.on("data", read);
    process.kill(pid, "SIGUSR2");
  });
}

async function eachService<T>(services: Services, of: (service: Started) => T | Promise<T>) {
  const values = await Promise.all(NAMES.map(async (name) => [name, await of(services[name])] as const));
  return Object.fromEntries(values) as Record<(typeof NAMES)[number], Awaited<T>>;
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** The most memory that each had while it played, over what it had before its first episode, an episode. */
class MemoryWatch {
  readonly #services: Services;
  readonly #before: number[];
  readonly #most: number[];
  readonly #timer: NodeJS.Timeout;

  constructor(services: Services) {
    this.#services = services;
    this.#before = this.#now();
    this.#most = this.#now();
    this.#timer = setInterval(() => {
      this.#now().forEach((kib, i) => (this.#most[i] = Math.max(kib, this.#most[i] as number)));
    }, 200);
  }

  kibPerEpisode(concurrency: number): Record<string, number> {
    clearInterval(this.#timer);
    return Object.fromEntries(
      NAMES.map((name, i) => [name, round(((this.#most[i] as number) - (this.#before[i] as number)) / concurrency)]),
    );
  }

  #now(): number[] {
    return NAMES.map((name) => residentKiB(this.#services[name].pid));
  }
}

export async function measureServices({ engineUrl, concurrency, leastTurns }: ServicesCell) {
  await using server = await startNats();
  await using nats = await server.connect();
  await ensurePlatform(nats);
  const streams = await openStreams(nats);
  await using opened = new AsyncDisposableStack();
  const slots = { WHETSTONE_SLOTS: String(concurrency + 1000) };
  const envRunner = opened.use(await startService("env-runner", slots, READY));
  const { service: gateway, url } = await startGateway(engineUrl);
  opened.use(gateway);
  const settings = {
    WHETSTONE_NATS_URL: server.url,
    WHETSTONE_GATEWAY_URL: url,
    WHETSTONE_ENV_ADDRESS: envRunner.found,
    WHETSTONE_MAX_EPISODES: String(concurrency),
    WHETSTONE_LOAD_INTERVAL_MS: "0", // So many at once, whatever the load says: it is what is measured.
  };
  const orchestrator = opened.use(await startService("rollout-orchestrator", settings, READY));
  const services = { orchestrator, envRunner, gateway };
  const jobs = await openKv(nats, JOBS_BUCKET, JobSchema);
  const play = async (job: string, count: number) => {
    await dispatch(nats, streams, job, count);
    await eachService(services, loopDelay);
    const before = await eachService(services, ({ pid }) => cpuMs(pid));
    const startedAt = performance.now();
    await jobs.put(job, { spec: { name: job }, status: { phase: JobPhase.RUNNING } });
    const totals = await awaitEpisodes(streams, job, count);
    const wallMs = performance.now() - startedAt;
    const used = await eachService(services, ({ pid }) => cpuMs(pid));
    const cpu = Object.fromEntries(NAMES.map((name) => [name, round((used[name] - before[name]) / totals.turns)]));
    const delays = await eachService(services, loopDelay);
    return { ...totals, wallMs: Math.round(wallMs), cpuMsPerTurn: cpu, delays };
  };
  const memory = new MemoryWatch(services);
  await play("warm-up", concurrency + 500);
  const { delays, ...played } = await play(
    "bench",
    Math.ceil(Math.max(leastTurns / TURNS_AN_EPISODE, 2 * concurrency)),
  );
  return {
    concurrency,
    ...played,
    turnsPerSecond: Math.round((played.turns / played.wallMs) * 1000),
    loopDelayP99Ms: Object.fromEntries(NAMES.map((name) => [name, round(delays[name].p99)])),
    loopDelayMaxMs: Object.fromEntries(NAMES.map((name) => [name, round(delays[name].max)])),
    residentKibPerEpisode: memory.kibPerEpisode(concurrency),
  };
}

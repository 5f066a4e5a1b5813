// SPDX-License-Identifier: Apache-2.0
// Plays episodes through a real orchestrator, env-runner and nats-server, each in its own process, and prints one JSON line
// per concurrency: CPU milliseconds a turn of each. `node bench/rollout-bench.ts [episodes] [concurrency …]`
// With WHETSTONE_BENCH_TLS=1, all connections have mutual TLS.
// With WHETSTONE_BENCH_PROFILE=<folder>, CPU profiles of orchestrator and env-runner are written there.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromBinary } from "@bufbuild/protobuf";
import {
  connectNats,
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
import { JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EpisodeSchema, EpisodeSummarySchema, FailureClass, Purpose } from "@whetstone/proto/types/v1/types";
import { silentLogger } from "@whetstone/telemetry";
import { startNats } from "@whetstone/testkit";
import { openTls, type Role, ROLES } from "@whetstone/tls";
import { createAuthority, issue, writeTlsFolder } from "@whetstone/tls/issuer";

const TICK_MS = 10; // Of /proc/<pid>/stat: 100 a second on Linux.

interface Service {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly url: string;
}

function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

async function startService(file: string, env: Record<string, string>, ready: RegExp): Promise<Service> {
  const profile = process.env["WHETSTONE_BENCH_PROFILE"];
  const flags = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
  const child = spawn(process.execPath, [...flags, join(import.meta.dirname, file)], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", ...env },
  });
  const url = await new Promise<string>((resolve, reject) => {
    let log = "";
    const read = (chunk: Buffer): void => {
      log += chunk.toString();
      const found = ready.exec(log)?.[1];
      if (found !== undefined) resolve(found);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", () => {
      reject(new Error(log));
    });
  });
  return { child, pid: child.pid as number, url };
}

const READY = /"address":"([^"]+)"[^\n]*"event":"ready"/;

function stop({ child }: Service): Promise<void> {
  return new Promise((resolve) => {
    child.once("exit", () => {
      resolve();
    });
    child.kill("SIGTERM");
  });
}

async function dispatch(nats: Nats, streams: TypedStreams, job: string, episodes: number): Promise<void> {
  await ensureJobStreams(nats, job, { maxTasks: episodes + 1 });
  const tasks = Array.from({ length: episodes }, (_, i) =>
    create(RolloutTaskSchema, {
      episodeId: `${job}/g${i >> 3}/s${i % 8}`,
      job,
      group: `g${i >> 3}`,
      sample: i % 8,
      purpose: Purpose.TRAIN,
      task: { id: `seed-${i >> 3}`, payload: { seed: i >> 3 } },
      seed: BigInt(i),
      agent: { kind: "frozenlake", args: { variant: "compact" } },
      environment: { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 5 } },
      model: job,
    }),
  );
  for (let i = 0; i < tasks.length; i += 100) {
    const part = tasks.slice(i, i + 100);
    await Promise.all(
      part.map((task) => streams.publish(episodeTaskSubject(job, task.group, task.sample), RolloutTaskSchema, task)),
    );
  }
}

/** Reads summaries until all episodes are sealed. */
async function awaitEpisodes(streams: TypedStreams, job: string, episodes: number) {
  const totals = { turns: 0, failed: 0 };
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

/** A folder of certificates for each role, of this run alone. */
function certificates(): { nats: string; of(role: Role): { WHETSTONE_TLS_PATH: string } } {
  const root = mkdtempSync(join(tmpdir(), "whetstone-bench-"));
  const validity = { from: new Date(), days: 1 };
  const authority = createAuthority(validity);
  for (const role of ROLES) writeTlsFolder(join(root, role), authority.cert, issue(authority, role, [], validity));
  const file = (name: string): string => JSON.stringify(join(root, "nats", name));
  return {
    nats: `cert_file: ${file("tls.crt")}, key_file: ${file("tls.key")}, ca_file: ${file("ca.crt")}, verify: true`,
    of: (role) => ({ WHETSTONE_TLS_PATH: join(root, role) }),
  };
}

async function measure(episodes: number, concurrency: number): Promise<object> {
  const tls = process.env["WHETSTONE_BENCH_TLS"] === "1" ? certificates() : undefined;
  await using server = await startNats(tls && { configuration: `tls { ${tls.nats} }` });
  const identity = openTls(tls?.of("controller")["WHETSTONE_TLS_PATH"], { logger: silentLogger });
  const natsUrl = tls ? server.url.replace("nats:", "tls:") : server.url;
  await using nats = await connectNats({ servers: natsUrl, name: "bench", logger: silentLogger, tls: identity });
  await ensurePlatform(nats);
  const streams = await openStreams(nats);
  const environments = await startService(
    "../../env-runner/src/main.ts",
    { WHETSTONE_GRPC_PORT: "0", ...tls?.of("env-runner") },
    READY,
  );
  const gateway = await startService("gateway-process.ts", { ...tls?.of("gateway") }, /(https?:\S+)/);
  const settings = {
    WHETSTONE_GRPC_PORT: "0",
    ...tls?.of("orchestrator"),
    WHETSTONE_NATS_URL: natsUrl,
    WHETSTONE_GATEWAY_URL: gateway.url,
    WHETSTONE_ENV_ADDRESS: environments.url,
    WHETSTONE_MAX_EPISODES: String(concurrency),
  };
  const orchestrator = await startService("../src/main.ts", settings, READY);
  const jobs = await openKv(nats, JOBS_BUCKET, JobSchema);
  const run = async (job: string, count: number) => {
    await dispatch(nats, streams, job, count);
    const before = [orchestrator, environments, gateway].map(({ pid }) => cpuMs(pid));
    const startedAt = performance.now();
    await jobs.put(job, { spec: { name: job }, status: { phase: JobPhase.RUNNING } });
    const totals = await awaitEpisodes(streams, job, count);
    const wallMs = performance.now() - startedAt;
    const [o = 0, e = 0, g = 0] = [orchestrator, environments, gateway].map(
      ({ pid }, i) => cpuMs(pid) - (before[i] ?? 0),
    );
    return {
      ...totals,
      wallMs,
      orchestratorMs: o / totals.turns,
      envRunnerMs: e / totals.turns,
      gatewayMs: g / totals.turns,
    };
  };
  await run("warm-up", 500);
  const { turns, failed, wallMs, ...cpu } = await run("bench", episodes);
  for (const service of [orchestrator, environments, gateway]) await stop(service);
  const rounded = Object.fromEntries(
    Object.entries(cpu).map(([name, value]) => [name, Math.round(value * 1000) / 1000]),
  );
  const turnsPerSecond = Math.round((turns / wallMs) * 1000);
  return { episodes, concurrency, turns, failed, wallMs: Math.round(wallMs), turnsPerSecond, cpuMsPerTurn: rounded };
}

const [episodes = 3000, ...levels] = process.argv.slice(2).map(Number);
for (const concurrency of levels.length > 0 ? levels : [64, 512]) {
  console.log(JSON.stringify(await measure(episodes, concurrency)));
}

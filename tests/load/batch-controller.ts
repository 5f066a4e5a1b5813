// SPDX-License-Identifier: Apache-2.0
/**
 * A controller's part of one job: its loop, queue, index, books and JobService, with a real nats-server; no trainer and no
 * engine, which cost it nothing here. In processes of their own: orchestrators that seal at once, and one that asks GetJob over
 * gRPC every 50 ms. `node batch-controller.ts 10000` evaluates so many tasks, `4096x8` collects a batch of groups times samples.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { loadavg } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ensureJobStreams, ensurePlatform, openStreams } from "@whetstone/messaging";
import { JobPhase, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { TrainResultSchema, WeightsSchema } from "@whetstone/proto/trainer/v1/trainer";
import { startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { startNats } from "@whetstone/testkit";
import { seedTasks } from "../../services/controller/src/datasets/dataset.ts";
import { JobStore } from "../../services/controller/src/jobs/job-store.ts";
import { jobService, type JobServiceDeps } from "../../services/controller/src/jobs/service/job-service.ts";
import { KvLedger } from "../../services/controller/src/loop/batch/kv-ledger.ts";
import { NatsTaskQueue } from "../../services/controller/src/loop/batch/nats-task-queue.ts";
import { StreamEpisodeIndex } from "../../services/controller/src/loop/batch/stream-episode-index.ts";
import { runJob } from "../../services/controller/src/loop/job-runner.ts";
import type { Fleet, Trainer } from "../../services/controller/src/loop/ports.ts";
import { StatusBoard } from "../../services/controller/src/loop/status-board.ts";

const NAME = "load";
const never = new AbortController().signal;

const [groups = 0, samples] = (process.argv[2] ?? "").split("x").map(Number);
const tasks = groups * (samples ?? 1);
const spec = create(JobSpecSchema, { name: NAME, ...(samples === undefined ? evaluation() : training(samples)) });

function evaluation(): MessageInitShape<typeof JobSpecSchema> {
  return { loop: { steps: 0 }, validation: { variants: [{ name: "eval", attempts: 1 }] } };
}

function training(groupSize: number): MessageInitShape<typeof JobSpecSchema> {
  const kind = { case: "policyGradient" as const, value: { groupSize } };
  return { loop: { steps: 1, batchGroups: groups }, algorithm: { kind } };
}

const weights = create(WeightsSchema, { path: "/w" });
const trainer: Trainer = {
  configure: () => Promise.resolve({ step: 0, weights }),
  trainStep: (step) => Promise.resolve(create(TrainResultSchema, { step, weights })),
  evaluate: () => Promise.resolve(undefined),
  takeWaitedMs: () => 0,
  repairWeights: () => Promise.resolve(),
};
const fleet: Fleet = { serve: () => Promise.resolve(1), release: () => Promise.resolve() };

await using server = await startNats();
await using nats = await server.connect();
await ensurePlatform(nats);
await ensureJobStreams(nats, NAME);
const streams = await openStreams(nats);
const store = await JobStore.open(nats);
const job = await store.create(spec);
const natsWatch = { overlay: (value: typeof job) => value };
await using service = await startServer({
  services: [jobService({ store, natsWatch } as unknown as JobServiceDeps)],
  ...{ host: "127.0.0.1", port: 0, logger: silentLogger },
});
const answers = start("batch-answers.ts", server.url, NAME);
const looks = start("get-job.ts", service.address, NAME);
const longest = once(createInterface({ input: looks.stdout }), "line");

const board = new StatusBoard(
  {
    write: async (change) => void (await store.change(NAME, (stored) => stored.status && change(stored.status))),
    onStep: () => Promise.resolve(),
    onValidation: () => Promise.resolve(),
  },
  [],
);
await using episodes = new StreamEpisodeIndex(streams, NAME, silentLogger);
const list = seedTasks(0, groups);
const parts = {
  ...{ ledger: await KvLedger.take(nats, NAME, "bench"), queue: new NatsTaskQueue(nats, streams, NAME), episodes },
  ...{ trainer, fleet, board, train: list, validation: list, logger: silentLogger, mayRestart: () => false },
};

const stalls = monitorEventLoopDelay({ resolution: 5 });
stalls.enable();
const busy = watchBusy();
const [cpu, startedAt] = [process.cpuUsage(), performance.now()];
const ending = await runJob(job, parts, { suspend: never, end: never, shutdown: never });
const { user, system } = process.cpuUsage(cpu);
const seconds = (performance.now() - startedAt) / 1000;
const longestBusyMs = busy.end();
looks.stdin.end();
answers.stdin.end();
if (ending.phase !== JobPhase.SUCCEEDED) throw new Error(JSON.stringify(ending));

const { status } = await store.get(NAME);
const round = (value: number): number => Number(value.toFixed(1));
const line = {
  ...{ bench: "batches", case: process.argv[2], tasks, seconds: round(seconds) },
  done: status?.validations[0]?.episodes ?? Number(status?.episodes?.trained),
  longestGetJobMs: round(Number((await longest)[0])),
  ...{ longestBusyMs: round(longestBusyMs), longestStallMs: round(stalls.max / 1e6) },
  cpuMsPerThousand: round((user + system) / tasks),
  peakRssMiB: round(process.resourceUsage().maxRSS / 1024),
  load: round(loadavg()[0] ?? 0),
};
process.stdout.write(`${JSON.stringify(line)}\n`);

function start(
  program: string,
  ...args: string[]
): ChildProcess & { stdin: NodeJS.WritableStream; stdout: NodeJS.ReadableStream } {
  const path = fileURLToPath(new URL(program, import.meta.url));
  return spawn(process.execPath, [path, ...args], { stdio: ["pipe", "pipe", "inherit"] });
}

/** Most CPU time of this thread between two turns: on a busy machine a stall holds the turns of other processes, too. */
function watchBusy() {
  let longestMs = 0;
  let before = process.threadCpuUsage();
  const timer = setInterval(() => {
    const { user, system } = process.threadCpuUsage(before);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    before = process.threadCpuUsage();
  }, 1);
  return {
    end: (): number => {
      clearInterval(timer);
      return longestMs;
    },
  };
}

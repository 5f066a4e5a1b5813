// SPDX-License-Identifier: Apache-2.0
/**
 * What an evaluation of many tasks costs the controller: its own queue, index and evaluation with a real nats-server, and
 * orchestrators that seal at once, in a process of their own. One JSON line: the most CPU time used between two turns of others,
 * the longest stall (which other processes lengthen too), the longest look at a job's record, and CPU time a thousand tasks.
 *
 *   node tests/load/batches.ts --tasks 10000
 */
import { spawn } from "node:child_process";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { create } from "@bufbuild/protobuf";
import { ensureJobStreams, ensurePlatform, openStreams } from "@whetstone/messaging";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { silentLogger } from "@whetstone/telemetry";
import { startNats } from "@whetstone/testkit";
import { JobStore } from "../../services/controller/src/jobs/job-store.ts";
import { NatsTaskQueue } from "../../services/controller/src/loop/batch/nats-task-queue.ts";
import { StreamEpisodeIndex } from "../../services/controller/src/loop/batch/stream-episode-index.ts";
import { compileJob } from "../../services/controller/src/jobs/compiled-job.ts";
import { seedTasks } from "../../services/controller/src/datasets/dataset.ts";
import type { JobContext } from "../../services/controller/src/loop/job-context.ts";
import { ValidationRun } from "../../services/controller/src/loop/validation/validation-run.ts";

const { values } = parseArgs({ options: { tasks: { type: "string", default: "10000" } } });
const tasks = Number(values.tasks);
const name = "load";
const stop = new AbortController();

await using server = await startNats();
await using nats = await server.connect();
await ensurePlatform(nats);
await ensureJobStreams(nats, name);
const streams = await openStreams(nats);
const store = await JobStore.open(nats);
const spec = create(JobSpecSchema, { name, validation: { variants: [{ name: "eval", attempts: 1 }] } });
await store.create(spec);
const program = fileURLToPath(new URL("./batch-answers.ts", import.meta.url));
const answers = spawn(process.execPath, [program, server.url, name], { stdio: ["pipe", "inherit", "inherit"] });
await using index = new StreamEpisodeIndex(streams, name, silentLogger);
const context = { spec, job: compileJob(spec) } as unknown as JobContext;
const queue = new NatsTaskQueue(nats, streams, name);
const run = new ValidationRun(context, { episodes: index, queue, tasks: seedTasks(0, tasks), known: [] });

const eventLoop = monitorEventLoopDelay({ resolution: 5 });
let longestLookMs = 0;
const looking = (async () => {
  while (!stop.signal.aborted) {
    const startedAt = performance.now();
    await store.get(name);
    longestLookMs = Math.max(longestLookMs, performance.now() - startedAt);
    await delay(20);
  }
})();
// On a busy machine a stall says little: this is the most CPU time that was used between two turns.
let longestBusyMs = 0;
let before = process.threadCpuUsage();
const turns = setInterval(() => {
  const { user, system } = process.threadCpuUsage(before);
  longestBusyMs = Math.max(longestBusyMs, (user + system) / 1000);
  before = process.threadCpuUsage();
}, 1);
const [cpu, startedAt] = [process.cpuUsage(), performance.now()];
eventLoop.enable();
const [result] = await run.run(0, stop.signal);
const { user, system } = process.cpuUsage(cpu);
clearInterval(turns);
stop.abort();
await looking;
answers.stdin.end();
const round = (value: number): number => Number(value.toFixed(1));
const line = {
  ...{ bench: "batches", tasks, scored: result?.episodes, seconds: round((performance.now() - startedAt) / 1000) },
  longestBusyMs: round(longestBusyMs),
  ...{ longestStallMs: round(eventLoop.max / 1e6), longestLookMs: round(longestLookMs) },
  ...{ cpuMsPerThousand: round((user + system) / tasks), rssMiB: round(process.memoryUsage.rss() / 2 ** 20) },
};
process.stdout.write(`${JSON.stringify(line)}\n`);

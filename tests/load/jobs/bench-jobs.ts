// SPDX-License-Identifier: Apache-2.0
/**
 * Two jobs that train and an evaluation, one after the other and then all at once on the same engines and trainers: what is
 * gained where each alone leaves the machine idle, and whether the two share alike. One JSON line.
 *
 *   node tests/load/jobs/bench-jobs.ts --steps 8 --wait-ms 400
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Job, JobPhase, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { smallJob, startLocalRuntime } from "../../support/local-runtime.ts";
import { WHET } from "../../support/whet.ts";

const { values } = parseArgs({
  options: {
    steps: { type: "string", default: "8" },
    engines: { type: "string", default: "3" },
    "wait-ms": { type: "string", default: "400" },
  },
});
const [steps, waitMs] = [Number(values.steps), Number(values["wait-ms"])];
const GROUPS = 8;
/** As many episodes as a job trains. */
const EVALUATED = steps * GROUPS * 4;

await using runtime = await startLocalRuntime("--engines", values.engines, "--trainers", "2");
await using jobs = createClient(JobService, runtime.address("controller"));
const folder = mkdtempSync(join(import.meta.dirname, ".jobs-"));
try {
  const alone: Job[] = [];
  for (const kind of ["one", "two", "measured"]) alone.push(await run(kind, "alone"));
  const together = await Promise.all(["one", "two", "measured"].map((kind) => run(kind, "together")));
  const [aloneS, togetherS] = [alone.reduce((sum, job) => sum + secondsOf(job), 0), spanOf(together)];
  const rates = together.slice(0, 2).map((job) => (steps * GROUPS * 4) / secondsOf(job));
  const audits = [...alone, ...together].map((job) => runtime.whet("jobs", "audit", nameOf(job)).json as Audit);
  const result = {
    bench: "jobs",
    engines: Number(values.engines),
    steps,
    waitMs,
    episodes: 2 * steps * GROUPS * 4 + EVALUATED,
    aloneSeconds: round(aloneS),
    togetherSeconds: round(togetherS),
    goodputRatio: round(aloneS / togetherS),
    jain: round(jain(rates)),
    audit: audits.map(({ lost, duplicated, stale, unlabelled }) => [lost, duplicated, stale, unlabelled].join("/")),
    load: round(loadavg()[0] ?? 0),
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

interface Audit {
  readonly lost: number;
  readonly duplicated: number;
  readonly stale: number;
  readonly unlabelled: number;
}

/** By the command line, which bundles the environment. @throws when the job does not succeed */
async function run(kind: string, when: string): Promise<Job> {
  const name = `${kind}-${when}`;
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify(specOf(kind, name)));
  const child = spawn(process.execPath, [WHET, "train", file, "--data", runtime.data, "--json"], { stdio: "ignore" });
  await new Promise((resolve) => child.once("exit", resolve));
  const { job } = await jobs.getJob({ name });
  if (job?.status?.phase !== JobPhase.SUCCEEDED) throw new Error(`${name}: ${job?.status?.message ?? "not submitted"}`);
  return job;
}

function specOf(kind: string, name: string): object {
  const { train, algorithm, ...rest } = smallJob(name, runtime.model, { steps, groups: GROUPS, lag: 1 });
  const common = {
    ...rest,
    agent: { kind: "frozenlake", args: { variant: "compact" } },
    environment: { kind: "SlowLetters", args: { waitMs } },
    module: join(import.meta.dirname, "slow-letters.ts"),
  };
  if (kind !== "measured") return { ...common, train, algorithm };
  const dataset = { seeds: { first: "900000", count: String(EVALUATED) } };
  return { ...common, loop: { steps: 0 }, validation: { dataset, concurrency: GROUPS * 8 } };
}

function nameOf({ spec }: Job): string {
  return spec?.name ?? "";
}

function timesOf({ createdAt, status }: Job): [from: number, to: number] {
  return [createdAt ? timestampMs(createdAt) : 0, status?.finishedAt ? timestampMs(status.finishedAt) : 0];
}

function secondsOf(job: Job): number {
  const [from, to] = timesOf(job);
  return (to - from) / 1000;
}

function spanOf(all: readonly Job[]): number {
  const times = all.map(timesOf);
  return (Math.max(...times.map(([, to]) => to)) - Math.min(...times.map(([from]) => from))) / 1000;
}

/** Jain's fairness index: 1 where all have the same, 1/n where one has everything. */
function jain(rates: readonly number[]): number {
  const sum = rates.reduce((a, b) => a + b, 0);
  return sum ** 2 / (rates.length * rates.reduce((a, b) => a + b ** 2, 0));
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

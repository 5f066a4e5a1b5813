// SPDX-License-Identifier: Apache-2.0
// A whole job whose weights reach two engines by broadcast, and another while who broadcasts them, and an engine, are killed:
// what a group does not bring goes over HTTP, and every episode is accounted for.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LocalRuntime, openLocalRuntime, type ServiceInfo } from "../support/local-runtime.ts";
import { python } from "../support/two-models.ts";
import { atStep, changingJob, endsWell } from "../support/watched-jobs.ts";

const STEPS = 6;
const ENGINES = ["engine-0", "engine-1"];
/** 5 million parameters, published in float32: more than a broadcast is worth while for. */
const MAKE_MODEL = `
import sys
from pathlib import Path
from whetstone_models.init import init_model
init_model(Path(sys.argv[1]), seed=3, hidden_size=128, num_hidden_layers=1, intermediate_size=12288)
`;
const LEAST_BYTES = 16 * 2 ** 20;

let folder: string;
let runtime: LocalRuntime;
let jobs: RpcClient<typeof JobService>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-groups-"));
  const model = join(folder, "model");
  await python({}, "-c", MAKE_MODEL, model);
  runtime = await openLocalRuntime({ data: join(folder, "data"), model }, "--engines", String(ENGINES.length));
  jobs = createClient(JobService, runtime.address("controller"));
}, 180_000);
afterAll(async () => {
  await jobs[Symbol.asyncDispose]();
  await runtime[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

async function submit(name: string): Promise<void> {
  await jobs.submitJob({ spec: fromJson(JobSpecSchema, changingJob(name, runtime.model, STEPS, { broadcast: {} })) });
}

it("brings each version to both engines by one broadcast", async () => {
  await submit("grouped");
  await endsWell(runtime, jobs, "grouped", STEPS);
  for (const engine of ENGINES) {
    const [broadcast, fetched] = [await counted(engine, "weight_broadcast"), await counted(engine, "weight_transfer")];
    // The last version may be staged after the job's end, and one that asked late gets it over HTTP.
    expect(broadcast).toBeGreaterThan((STEPS - 2) * LEAST_BYTES);
    expect(fetched).toBeLessThan(broadcast / 2);
  }
}, 240_000);

it("goes on while the sender and an engine are killed", async () => {
  await submit("disturbed");
  const over = atStep(jobs, "disturbed", STEPS - 1).then(() => true);
  const killed = new Set<number>();
  while (!(await Promise.race([over, delay(300, false)]))) {
    for (const pid of senders().filter((each) => !killed.has(each))) {
      process.kill(pid, "SIGKILL");
      if (killed.add(pid).size === 2) process.kill(serviceOf("engine-1").pid ?? 0, "SIGKILL");
    }
  }
  await endsWell(runtime, jobs, "disturbed", STEPS);
  expect(killed.size).toBeGreaterThanOrEqual(2);
  expect([serviceOf("engine-1").crashes, serviceOf("trainer").crashes]).toEqual([1, 0]);
}, 300_000);

function serviceOf(name: string): ServiceInfo {
  const found = runtime.services().find((service) => service.name === name);
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
}

/** Processes that broadcast for this runtime's trainer. */
function senders(): number[] {
  const trainer = serviceOf("trainer").pid;
  const listed = execFileSync("ps", ["-e", "-o", "pid=,ppid=,args="], { encoding: "utf8" }).split("\n");
  return listed.flatMap((line) => {
    const [pid, parent] = line.trim().split(/\s+/);
    return Number(parent) === trainer && line.includes("group_sender") ? [Number(pid)] : [];
  });
}

async function counted(engine: string, what: string): Promise<number> {
  const text = await (await fetch(`http://${runtime.address(engine, "http")}/metrics`)).text();
  return Number(new RegExp(`whetstone_engine_${what}_bytes_total\\{.*\\} (\\d+)`).exec(text)?.[1]);
}

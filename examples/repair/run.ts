// SPDX-License-Identifier: Apache-2.0
// Makes tasks and a random model, starts the services, trains twice, and says what was learned. `make repair` runs it.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { Platform, whet } from "../frozenlake/src/platform.ts";

const data = resolve(".whetstone/repair");
const startedAt = performance.now();
rmSync(data, { recursive: true, force: true });
execFileSync("python", [join(import.meta.dirname, "tasks.py"), data], { stdio: "inherit" });
const start = join(data, "start");
whet("models", "init", start, "--preset", "tiny", "--seed", "1");
await using platform = await Platform.start(join(data, "run"), start, 1);

const trainedFrom = performance.now();
const format = await train("format.ts", "repair-format", start);
const formatSeconds = seconds(trainedFrom);
const { validations } = await train("repair.ts", "repair", format.modelPath, ...process.argv.slice(2));
const heldOut = validations.map(({ step, variant, success }) => ({ step, variant, success }));
const audit = platform.whet("jobs", "audit", "repair");
const took = { formatSeconds, trainSeconds: seconds(trainedFrom), allSeconds: seconds(startedAt) };
console.log(JSON.stringify({ benchmark: "repair", heldOut, ...took, audit }));

/** @returns the job's status at its end */
async function train(file: string, name: string, model: string, ...more: string[]) {
  const args = ["train", join(import.meta.dirname, file), "--model", model, "--data", platform.data, ...more];
  // Not spawnSync: a signal is to stop the services even while this trains.
  const [status] = (await once(spawn("whet", args, { stdio: "inherit" }), "exit")) as [number | null];
  if (status !== 0) throw new Error(`${name} ended with exit code ${status}; see above`);
  const { job } = await platform.jobs.getJob({ name });
  if (job?.status === undefined) throw new Error(`${name} has no status`);
  return job.status;
}

function seconds(since: number): number {
  return Math.round((performance.now() - since) / 1000);
}

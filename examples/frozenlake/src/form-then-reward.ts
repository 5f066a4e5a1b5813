// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { JobStatus } from "@whetstone/proto/jobs/v1/jobs";
import { Platform, whet } from "./platform.ts";

export interface FormThenReward {
  /** Of the second job, whose held-out results are shown; the first one's is "<name>-format". */
  readonly name: string;
  /** Folder of the example: format.ts is the first job, <name>.ts the second. */
  readonly jobs: string;
  /** Where model, services and results are kept. */
  readonly data: string;
  /** Standard deviation of the random weights. */
  readonly spread: number;
  /** Further arguments of `whet train` for the second job. */
  readonly more: readonly string[];
  /** When the whole began, as `performance.now()` says. */
  readonly startedAt: number;
}

/** A tiny random model learns the form of an answer by SFT, then by rewards what to answer. Prints what it learned as a JSON line. */
export async function formThenReward({ name, jobs, data, spread, more, startedAt }: FormThenReward): Promise<void> {
  const start = join(data, "start");
  whet("models", "init", start, "--preset", "tiny", "--seed", "1", "--initializer-range", String(spread));
  await using platform = await Platform.start(join(data, "run"), start, 1);
  const trainedFrom = performance.now();
  const format = await train(platform, join(jobs, "format.ts"), { name: `${name}-format`, model: start, more: [] });
  const formatSeconds = seconds(trainedFrom);
  const trained = await train(platform, join(jobs, `${name}.ts`), { name, model: format.modelPath, more });
  const heldOut = trained.validations.map(({ step, variant, success }) => ({ step, variant, success }));
  const audit = platform.whet("jobs", "audit", name);
  const took = { formatSeconds, trainSeconds: seconds(trainedFrom), allSeconds: seconds(startedAt) };
  console.log(JSON.stringify({ benchmark: name, heldOut, ...took, audit }));
}

interface Training {
  readonly name: string;
  readonly model: string;
  readonly more: readonly string[];
}

/** @returns the job's status at its end */
async function train(platform: Platform, file: string, { name, model, more }: Training): Promise<JobStatus> {
  const args = ["train", file, "--model", model, "--data", platform.data, ...more];
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

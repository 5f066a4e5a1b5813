// SPDX-License-Identifier: Apache-2.0
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { JobPhase, JobSpecSchema, type StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import { writeDemonstrations } from "./demonstrations.ts";
import { BadInput } from "./options.ts";
import { type Platform, whet } from "./platform.ts";
import { progressPrinter } from "./progress.ts";
import { DEMONSTRATIONS, SPREAD, trainSeeds } from "./recipe.ts";
import type { AuditCounts, FinishedJob } from "./result.ts";

/** A fresh data folder with a random model and the demonstrations. @throws BadInput while a runtime uses the folder. */
export function prepare(seed: number, data: string): { model: string; demonstrations: string } {
  const { running } = JSON.parse(whet("status", "--data", data, "--json")) as { running: boolean };
  if (running) throw new BadInput(`a runtime is running in ${data}: end it with \`npx whet down --data ${data}\``);
  rmSync(data, { recursive: true, force: true });
  mkdirSync(data, { recursive: true });
  const model = join(data, "models/start");
  const weights = ["--seed", String(seed), "--initializer-range", String(SPREAD)];
  whet("models", "init", model, "--preset", "tiny", ...weights);
  const demonstrations = join(data, "demonstrations.jsonl");
  writeDemonstrations(demonstrations, trainSeeds(seed).demonstrations, DEMONSTRATIONS);
  return { model, demonstrations };
}

/** Submits a job and shows how it goes. @throws Error when it ends otherwise than by success. */
export async function runJob(platform: Platform, spec: JsonObject): Promise<FinishedJob> {
  const name = spec["name"] as string;
  await platform.jobs.submitJob({ spec: fromJson(JobSpecSchema, spec) });
  const steps: StepRecord[] = [];
  const printer = progressPrinter(name, !("sft" in (spec["algorithm"] as JsonObject)));
  for await (const { event } of platform.jobs.streamMetrics({ name, follow: true })) {
    if (event.case === "step") steps.push(event.value);
    printer.show(event);
  }
  const { job } = await platform.jobs.getJob({ name });
  const phase = job?.status?.phase ?? JobPhase.UNSPECIFIED;
  if (!job || phase !== JobPhase.SUCCEEDED)
    throw new Error(`${name} ended as ${JobPhase[phase]}: ${job?.status?.message}`);
  return { job, steps, audit: platform.whet("jobs", "audit", name) as AuditCounts };
}

/** Copies a job's last weights to where they are easy to find. */
export function keepModel({ job }: FinishedJob, folder: string): string {
  cpSync(job.status?.modelPath ?? "", folder, { recursive: true });
  return folder;
}

// SPDX-License-Identifier: Apache-2.0
// The jobs of the end-to-end test.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { JsonObject } from "@bufbuild/protobuf";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";

import { writeDemonstrations } from "../../examples/frozenlake/src/demonstrations.ts";
import { DEMONSTRATIONS, grpoJob, sftJob, trainSeeds } from "../../examples/frozenlake/src/recipe.ts";
import { smallJob } from "../support/local-runtime.ts";
import { command } from "./cluster.ts";
import { type Jobs, runJob } from "./jobs.ts";
import { NAMESPACE, RELEASE } from "./release.ts";

const FILE = "/data/e2e-demonstrations.jsonl";
export const MODEL = "/data/models/policy";
const LEARN_STEPS = Number(process.env["E2E_LEARN_STEPS"] || 20);
const LEARN = { seed: 1, steps: LEARN_STEPS, lag: 1, heldOut: 100 } as Parameters<typeof grpoJob>[0];

/** GRPO from random weights: every service takes part, nothing is learned yet. */
export function shortJob(name: string, steps = 3): JsonObject {
  return smallJob(name, MODEL, { steps, lag: 1 });
}

/** Puts the quickstart's demonstrations on the cluster's volume. */
export function bringDemonstrations(): void {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-e2e-"));
  const file = join(folder, "demonstrations.jsonl");
  writeDemonstrations(file, trainSeeds(LEARN.seed).demonstrations, DEMONSTRATIONS);
  const controller = ["exec", "-i", `deployment/${RELEASE}-controller`, "-c", "controller", "--"];
  command("kubectl", ["-n", NAMESPACE, ...controller, "tee", FILE], readFileSync(file, "utf8"));
  rmSync(folder, { recursive: true });
}

/** The quickstart's SFT, longer, since these weights are of the default spread: the model must know the answer's format after it. */
export async function teachFormat(jobs: Jobs): Promise<{ said: string; modelPath: string }> {
  const { job, steps } = await runJob(jobs, { ...sftJob(LEARN, MODEL, FILE, 6), name: "e2e-sft" });
  const losses = steps.map(({ metrics }) => metrics["loss"] ?? NaN);
  const [first = NaN, last = NaN] = [losses[0], losses.at(-1)];
  if (!(last < first)) throw new Error(`the loss did not fall: ${losses.join(", ")}`);
  const said = `loss ${first.toFixed(2)} → ${last.toFixed(2)}, ${successes(job)}`;
  return { said, modelPath: job.status?.modelPath ?? "" };
}

/** The quickstart's GRPO, fewer steps: more episodes must reach the goal after it. */
export async function teachWay(jobs: Jobs, modelPath: string): Promise<string> {
  const spec: JsonObject = { ...grpoJob(LEARN, modelPath), name: "e2e-learn" };
  const validation = { ...(spec["validation"] as JsonObject), atStart: true };
  const { job } = await runJob(jobs, { ...spec, validation });
  const [before = NaN, after = NaN] = [success(job, 0), success(job, LEARN_STEPS)];
  if (!(after > before + 0.1)) throw new Error(`it did not learn: ${successes(job)}`);
  return `${LEARN_STEPS} steps, ${successes(job)}`;
}

function success(job: Job, step: number): number | undefined {
  return job.status?.validations.find((result) => result.step === step && result.variant === "greedy")?.success;
}

function successes(job: Job): string {
  const greedy = (job.status?.validations ?? []).filter(({ variant }) => variant === "greedy");
  return `success on held-out maps ${greedy.map((result) => result.success.toFixed(2)).join(" → ")}`;
}

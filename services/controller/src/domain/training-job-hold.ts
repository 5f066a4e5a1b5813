// SPDX-License-Identifier: Apache-2.0
import type { TrainingJob } from "./training-job.ts";
import type { JobFacts } from "./training-job-facts.ts";

/** Why a job must wait though its user wants it to run, one word. Empty: it need not. */
export function holdOf(job: TrainingJob, { workload, trainer }: Pick<JobFacts, "workload" | "trainer">): string {
  const { spec } = job;
  if (spec.queueName && workload?.evicted) return "Evicted";
  if (spec.queueName && !workload?.admitted) return "WaitingForQuota";
  return needsRay(job) && !trainer?.ready ? "WaitingForTrainer" : "";
}

/** The same before anything was looked at. */
export function firstHold(job: TrainingJob): string {
  return holdOf(job, { workload: undefined, trainer: undefined });
}

/** Its trainer is a RayCluster of its own. */
export function needsRay({ spec }: TrainingJob): boolean {
  return spec.trainer?.backend === "verl";
}

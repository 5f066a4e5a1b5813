// SPDX-License-Identifier: Apache-2.0
import type { StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import type { Metrics } from "@whetstone/telemetry";

/** A closed list: names with a role or a user's own name in them have no end (docs/metrics.md). */
const SHOWN = [
  ...["loss", "policy_loss", "entropy", "grad_norm", "clip_fraction", "kl/k1", "kl/reference", "lr"],
  ...["reward/mean", "reward/std", "success/mean", "episodes", "groups_with_signal", "groups_filtered"],
  ...["batch/solve_none", "batch/solve_all", "batch/solve_partial", "rollout/voided"],
  ...["response_length/mean", "response_length/min", "response_length/max"],
  ...["lag/mean", "lag/max", "logprob_diff/max", "tokens_trained", "tokens_per_second"],
] as const;

type Gauges = Pick<Metrics, "gauge">;

/** The newest step of a job that trains, for Prometheus. What a step does not have is not shown. */
export function showStep(metrics: Gauges, job: string, { step, metrics: values }: StepRecord): void {
  stepGauge(metrics).set({ job }, step);
  const gauge = trainingGauge(metrics);
  for (const name of SHOWN) {
    if (values[name] === undefined) gauge.remove({ job, name });
    else gauge.set({ job, name }, values[name]);
  }
}

/** A job that trains no longer is shown no longer: names of jobs have no end. */
export function hideSteps(metrics: Gauges, job: string): void {
  stepGauge(metrics).remove({ job });
  for (const name of SHOWN) trainingGauge(metrics).remove({ job, name });
}

function stepGauge(metrics: Gauges): ReturnType<Gauges["gauge"]> {
  return metrics.gauge("training_step", "Newest step that is done, of each job that trains.", ["job"]);
}

function trainingGauge(metrics: Gauges): ReturnType<Gauges["gauge"]> {
  return metrics.gauge("training", "Metrics of the newest step, see docs/metrics.md.", ["job", "name"]);
}

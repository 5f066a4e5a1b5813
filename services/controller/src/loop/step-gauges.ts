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

/** The newest step of the job that trains, for Prometheus. What a step does not have is not shown. */
export function showStep(metrics: Pick<Metrics, "gauge">, { step, metrics: values }: StepRecord): void {
  metrics.gauge("training_step", "Newest step that is done, of the job that trains.").set(step);
  const gauge = metrics.gauge("training", "Metrics of the newest step, see docs/metrics.md.", ["name"]);
  gauge.reset();
  for (const name of SHOWN) if (values[name] !== undefined) gauge.set({ name }, values[name]);
}

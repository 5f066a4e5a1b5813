// SPDX-License-Identifier: Apache-2.0
import { type Algorithm, type JobSpec, LossAggregation, type Optimizer } from "@whetstone/proto/jobs/v1/jobs";
import type { Findings } from "./violation.ts";

export function checkAlgorithm(found: Findings, algorithm: Algorithm): void {
  if (algorithm.kind.case === "sft") checkOptimizer(found, "algorithm.sft", algorithm.kind.value);
  if (algorithm.kind.case !== "grpo") return;
  const grpo = algorithm.kind.value;
  found.check(
    "algorithm.grpo.groupSize",
    grpo.groupSize >= 2,
    `must be at least 2, got ${grpo.groupSize}: GRPO compares the members of a group`,
  );
  found.range("algorithm.grpo.groupSize", Math.max(2, grpo.groupSize), 2, 1024);
  found.range("algorithm.grpo.clipLow", grpo.clipLow, 0, 1);
  found.range("algorithm.grpo.clipHigh", grpo.clipHigh, 0, 100);
  if (grpo.clipDual !== 0) found.above("algorithm.grpo.clipDual", grpo.clipDual, 1, 1e6);
  found.range("algorithm.grpo.entropyCoefficient", grpo.entropyCoefficient, 0, 10);
  found.range("algorithm.grpo.importanceCap", grpo.importanceCap, 0, 1000);
  const scaled = grpo.lossAggregation === LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM;
  const factor = "algorithm.grpo.lossScaleFactor";
  found.check(factor, grpo.lossScaleFactor === undefined || scaled, "is only used with SEQ_MEAN_TOKEN_SUM_NORM");
  found.above(factor, grpo.lossScaleFactor, 0, 1e9);
  checkOptimizer(found, "algorithm.grpo", grpo);
}

type Trained = Pick<Extract<Algorithm["kind"], { case: "sft" }>["value"], "optimizer" | "batching">;

function checkOptimizer(found: Findings, path: string, { optimizer, batching }: Trained): void {
  if (optimizer) checkAdam(found, `${path}.optimizer`, optimizer);
  found.range(`${path}.batching.miniBatches`, batching?.miniBatches, 1, 4096);
  found.range(`${path}.batching.epochs`, batching?.epochs, 1, 1000);
  found.range(`${path}.batching.microBatchTokens`, batching?.microBatchTokens, 16, 100_000_000);
}

function checkAdam(found: Findings, path: string, optimizer: Optimizer): void {
  found.above(`${path}.learningRate`, optimizer.learningRate, 0, 1);
  found.range(`${path}.beta1`, optimizer.beta1, 0, 0.999999999);
  found.range(`${path}.beta2`, optimizer.beta2, 0, 0.999999999);
  found.range(`${path}.weightDecay`, optimizer.weightDecay, 0, 100);
  found.above(`${path}.gradientClip`, optimizer.gradientClip, 0, 1e9);
  found.range(`${path}.warmupSteps`, optimizer.warmupSteps, 0, 1_000_000);
  found.range(`${path}.finalRateShare`, optimizer.finalRateShare, 0, 1);
}

export function checkGroupPolicy(found: Findings, spec: JobSpec): void {
  const policy = spec.loop?.groupPolicy?.kind;
  if (policy?.case !== "partial") return;
  const grpo = spec.algorithm?.kind.case === "grpo" ? spec.algorithm.kind.value : undefined;
  const [fewest, most] = grpo ? [2, Math.max(2, grpo.groupSize)] : [1, 1];
  found.range("loop.groupPolicy.partial.minSize", policy.value.minSize, fewest, most);
}

// SPDX-License-Identifier: Apache-2.0
import {
  type Algorithm,
  type JobSpec,
  LossAggregation,
  type Optimizer,
  type Validation,
} from "@whetstone/proto/jobs/v1/jobs";
import type { Dataset, Loop } from "@whetstone/proto/jobs/v1/jobs";
import type { Module, PhaseTimeouts, RolloutLimits, Sampling } from "@whetstone/proto/types/v1/types";
import { durationMs } from "./duration.ts";
import { Findings, type Violation } from "./findings.ts";
import { checkRoles } from "./validate-roles.ts";

export type { Violation };

/** Job names become DNS labels, NATS subjects and folder names. */
const NAME = /^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/;
const VARIANT = /^[a-z][a-z0-9]{0,30}$/;
const DIGEST = /^[0-9a-f]{64}$/;

/**
 * Everything about a job that can be judged from its text alone (I11). What needs the world (model folder, environment,
 * dataset file) is checked by `adapters/job-world.ts`.
 */
export function validateJob(spec: JobSpec): Violation[] {
  const found = new Findings();
  found.check("name", NAME.test(spec.name), "must be a DNS label of at most 52 characters: a-z, 0-9 and inner dashes");
  found.check("model.path", Boolean(spec.model?.path), "is required: a folder in Hugging Face layout");
  checkLoop(found, spec.loop);
  if ((spec.loop?.steps ?? 0) > 0) checkTraining(found, spec);
  else
    found.check("validation", Boolean(spec.validation), "is required when loop.steps is 0: the job would do nothing");
  if (spec.validation) checkValidation(found, spec.validation);
  if (needsAgent(spec)) checkAgent(found, spec);
  checkSampling(found, "sampling", spec.sampling);
  checkLimits(found, spec.limits);
  checkRoles(found, spec);
  if (spec.module) checkModule(found, spec.module);
  found.range("weight", spec.weight, 1, 1000);
  if (spec.timeout) found.check("timeout", durationMs(spec.timeout) > 0, "must be above 0");
  return found.violations;
}

/** Whether anything of the job is sampled: all but SFT without validation. */
export function needsAgent(spec: JobSpec): boolean {
  const trains = (spec.loop?.steps ?? 0) > 0 && spec.algorithm?.kind.case !== "sft";
  return trains || spec.validation !== undefined;
}

function checkLoop(found: Findings, loop: Loop | undefined): void {
  found.check("loop", loop !== undefined, "is required");
  if (!loop) return;
  found.check("loop.steps", loop.steps !== undefined, "is required; 0 only evaluates");
  found.range("loop.steps", loop.steps, 0, 1_000_000);
  if (loop.steps) found.range("loop.batchGroups", loop.batchGroups, 1, 65_536);
  found.range("loop.maxPolicyLag", loop.maxPolicyLag, 0, 8);
  found.range("loop.checkpointEvery", loop.checkpointEvery, 1, 1_000_000);
  found.range("loop.checkpointsKept", loop.checkpointsKept, 1, 10_000);
}

function checkTraining(found: Findings, spec: JobSpec): void {
  found.check("train", spec.train !== undefined, "is required unless loop.steps is 0");
  if (spec.train) checkDataset(found, "train", spec.train);
  const kind = spec.algorithm?.kind.case;
  found.check("algorithm", kind !== undefined, "is required unless loop.steps is 0: one of sft, grpo");
  if (spec.algorithm) checkAlgorithm(found, spec.algorithm);
  checkGroupPolicy(found, spec);
  // A greedy token has probability 1 whatever the weights: nothing could be learned from it.
  const greedy = kind === "grpo" && spec.sampling?.temperature === 0;
  found.check("sampling.temperature", !greedy, "must be above 0 to train on what was sampled");
}

function checkAlgorithm(found: Findings, algorithm: Algorithm): void {
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
  if (grpo.clipDual) found.above("algorithm.grpo.clipDual", grpo.clipDual, 1);
  found.range("algorithm.grpo.entropyCoefficient", grpo.entropyCoefficient, 0, 10);
  found.range("algorithm.grpo.importanceCap", grpo.importanceCap, 0, 1000);
  const scaled = grpo.lossAggregation === LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM;
  const factor = "algorithm.grpo.lossScaleFactor";
  found.check(factor, grpo.lossScaleFactor === undefined || scaled, "is only used with SEQ_MEAN_TOKEN_SUM_NORM");
  found.above(factor, grpo.lossScaleFactor, 0);
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
  found.above(`${path}.learningRate`, optimizer.learningRate, 0);
  found.range(`${path}.beta1`, optimizer.beta1, 0, 0.999999999);
  found.range(`${path}.beta2`, optimizer.beta2, 0, 0.999999999);
  found.range(`${path}.weightDecay`, optimizer.weightDecay, 0, 100);
  found.above(`${path}.gradientClip`, optimizer.gradientClip, 0);
  found.range(`${path}.finalRateShare`, optimizer.finalRateShare, 0, 1);
}

function checkGroupPolicy(found: Findings, spec: JobSpec): void {
  const policy = spec.loop?.groupPolicy?.kind;
  if (policy?.case !== "partial") return;
  const path = "loop.groupPolicy.partial.minSize";
  const grpo = spec.algorithm?.kind.case === "grpo" ? spec.algorithm.kind.value : undefined;
  found.check(path, policy.value.minSize >= (grpo ? 2 : 1), `must be at least ${grpo ? 2 : 1}`);
  if (grpo)
    found.check(
      path,
      policy.value.minSize <= grpo.groupSize,
      `must not exceed algorithm.grpo.groupSize (${grpo.groupSize})`,
    );
}

function checkDataset(found: Findings, path: string, dataset: Dataset): void {
  const source = dataset.source;
  found.check(path, source.case !== undefined, "needs a source: one of jsonl, seeds");
  if (source.case === "seeds") found.check(`${path}.seeds.count`, source.value.count >= 1n, "must be at least 1");
  if (source.case === "jsonl") found.check(`${path}.jsonl`, source.value !== "", "must name a file");
  if (dataset.take !== undefined) found.check(`${path}.take`, dataset.take >= 1n, "must be at least 1");
  found.range(`${path}.repeat`, dataset.repeat, 1, 1_000_000);
}

function checkValidation(found: Findings, validation: Validation): void {
  found.check("validation.dataset", validation.dataset !== undefined, "is required");
  if (validation.dataset) checkDataset(found, "validation.dataset", validation.dataset);
  found.range("validation.concurrency", validation.concurrency, 1, 1_000_000);
  const names = new Set<string>();
  validation.variants.forEach((variant, i) => {
    const path = `validation.variants[${i}]`;
    found.check(`${path}.name`, VARIANT.test(variant.name), "must be a lower-case word");
    found.check(`${path}.name`, !names.has(variant.name), `"${variant.name}" is taken by another variant`);
    names.add(variant.name);
    found.range(`${path}.attempts`, variant.attempts, 1, 10_000);
    checkSampling(found, `${path}.sampling`, variant.sampling);
  });
}

/** Built-in rollouts; a module's workflows and rollouts may do without an environment, too, which only looking tells. */
const OWN_RUN = new Set(["command", "http"]);

function checkAgent(found: Findings, spec: JobSpec): void {
  found.check("agent.kind", Boolean(spec.agent?.kind), "is required: the agent that acts");
  const mayDoWithout = Boolean(spec.module) || OWN_RUN.has(spec.agent?.kind ?? "");
  const named = Boolean(spec.environment?.kind) || (mayDoWithout && !spec.environment);
  found.check("environment.kind", named, "is required: the environment it acts in");
}

function checkSampling(found: Findings, path: string, sampling: Sampling | undefined): void {
  found.range(`${path}.temperature`, sampling?.temperature, 0, 2);
  found.range(`${path}.topP`, sampling?.topP, 1e-6, 1);
  found.range(`${path}.maxTokens`, sampling?.maxTokens, 1, 10_000_000);
}

function checkLimits(found: Findings, limits: RolloutLimits | undefined): void {
  found.range("limits.maxSteps", limits?.maxSteps, 1, 100_000);
  found.range("limits.maxPromptTokens", limits?.maxPromptTokens, 1, 10_000_000);
  found.range("limits.maxResponseTokens", limits?.maxResponseTokens, 1, 10_000_000);
  found.range("limits.retryLimit", limits?.retryLimit, 0, 100);
  found.range("limits.gamma", limits?.gamma, 0, 1);
  if (limits?.episodeTimeout)
    found.range("limits.episodeTimeout (ms)", durationMs(limits.episodeTimeout), 1, 86_400_000);
  if (limits?.phaseTimeouts) checkPhases(found, limits.phaseTimeouts);
}

function checkPhases(found: Findings, { reset, model, step, reward, close }: PhaseTimeouts): void {
  for (const [phase, timeout] of Object.entries({ reset, model, step, reward, close }))
    if (timeout) found.range(`limits.phaseTimeouts.${phase} (ms)`, durationMs(timeout), 1, 86_400_000);
}

function checkModule(found: Findings, { digest, code }: Module): void {
  found.check("module.digest", DIGEST.test(digest), "must be a SHA-256 in lower-case hex");
  found.check("module.code", code.length === 0, "must be empty: the code travels beside the spec, as module_code");
}

// SPDX-License-Identifier: Apache-2.0
/**
 * What the schema of `spec.job` says beyond the types of jobs.proto, by message and field: the same bounds as the
 * controller's `jobs/validation/validate-job.ts`. A test compares the two. Keys that the contract does not have stop the generator.
 */
export interface Bound {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: true;
  readonly exclusiveMaximum?: true;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly pattern?: string;
}

const positive = (maximum: number): Bound => ({ minimum: 0, exclusiveMinimum: true, maximum });
const SHARE: Bound = { minimum: 0, maximum: 1 };
const atLeastOne = (maximum: number): Bound => ({ minimum: 1, maximum });

export const BOUNDS: Readonly<Record<string, Bound>> = {
  "jobs.v1.JobSpec.roles": { maxItems: 16 },
  "jobs.v1.JobSpec.weight": atLeastOne(1000),
  "jobs.v1.ModelSource.path": { minLength: 1, maxLength: 4096 },
  "jobs.v1.Dataset.jsonl": { minLength: 1, maxLength: 4096 },
  "jobs.v1.Dataset.repeat": atLeastOne(1_000_000),
  "jobs.v1.Validation.concurrency": atLeastOne(1_000_000),
  "jobs.v1.Validation.every_steps": { minimum: 0, maximum: 1_000_000 },
  "jobs.v1.Validation.variants": { maxItems: 16 },
  "jobs.v1.ValidationVariant.name": { pattern: "^[a-z][a-z0-9]{0,30}$", maxLength: 31 },
  "jobs.v1.ValidationVariant.attempts": atLeastOne(10_000),
  "jobs.v1.Optimizer.learning_rate": positive(1),
  "jobs.v1.Optimizer.beta1": { minimum: 0, maximum: 0.999999999 },
  "jobs.v1.Optimizer.beta2": { minimum: 0, maximum: 0.999999999 },
  "jobs.v1.Optimizer.weight_decay": { minimum: 0, maximum: 100 },
  "jobs.v1.Optimizer.gradient_clip": positive(1e9),
  "jobs.v1.Optimizer.warmup_steps": { minimum: 0, maximum: 1_000_000 },
  "jobs.v1.Optimizer.final_rate_share": SHARE,
  "jobs.v1.Batching.mini_batches": atLeastOne(4096),
  "jobs.v1.Batching.epochs": atLeastOne(1000),
  "jobs.v1.Batching.micro_batch_tokens": { minimum: 16, maximum: 100_000_000 },
  "jobs.v1.Grpo.group_size": { minimum: 2, maximum: 1024 },
  "jobs.v1.Grpo.clip_low": SHARE,
  "jobs.v1.Grpo.clip_high": { minimum: 0, maximum: 100 },
  "jobs.v1.Grpo.entropy_coefficient": { minimum: 0, maximum: 10 },
  "jobs.v1.Grpo.clip_dual": { minimum: 0, maximum: 1e6 },
  "jobs.v1.Grpo.loss_scale_factor": positive(1e9),
  "jobs.v1.Grpo.importance_cap": { minimum: 0, maximum: 1000 },
  "jobs.v1.GroupPolicy.Partial.min_size": { minimum: 1 },
  "jobs.v1.Loop.steps": { minimum: 0, maximum: 1_000_000 },
  "jobs.v1.Loop.batch_groups": { minimum: 0, maximum: 32_768 },
  "jobs.v1.Loop.max_policy_lag": { minimum: 0, maximum: 8 },
  "jobs.v1.Loop.checkpoint_every": atLeastOne(1_000_000),
  "jobs.v1.Loop.checkpoints_kept": atLeastOne(10_000),
  "types.v1.Module.digest": { pattern: "^[0-9a-f]{64}$", maxLength: 64 },
  "types.v1.Role.name": { pattern: "^[A-Za-z0-9][-_.A-Za-z0-9]{0,63}$", maxLength: 64 },
  "types.v1.ExternalModel.base_url": { pattern: "^https?://", maxLength: 2048 },
  "types.v1.ExternalModel.model": { minLength: 1, maxLength: 256 },
  "types.v1.ExternalModel.api_key_env": { pattern: "^[A-Z][A-Z0-9_]*_API_KEY$", maxLength: 128 },
  "types.v1.RolloutLimits.max_steps": atLeastOne(100_000),
  "types.v1.RolloutLimits.max_prompt_tokens": atLeastOne(10_000_000),
  "types.v1.RolloutLimits.max_response_tokens": atLeastOne(10_000_000),
  "types.v1.RolloutLimits.retry_limit": { minimum: 0, maximum: 100 },
  "types.v1.RolloutLimits.gamma": SHARE,
  "types.v1.Sampling.temperature": { minimum: 0, maximum: 2 },
  "types.v1.Sampling.top_p": { minimum: 0.000001, maximum: 1 },
  "types.v1.Sampling.top_k": { minimum: 0, maximum: 1_000_000 },
  "types.v1.Sampling.max_tokens": atLeastOne(10_000_000),
};

/** Fields without which no job is valid, whatever else it says. */
export const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  "jobs.v1.JobSpec": ["model", "loop"],
  "jobs.v1.ModelSource": ["path"],
  "jobs.v1.AgentSpec": ["kind"],
  "jobs.v1.EnvironmentSpec": ["kind"],
  "jobs.v1.SeedRange": ["count"],
  "jobs.v1.Validation": ["dataset"],
  "jobs.v1.ValidationVariant": ["name"],
  "jobs.v1.Grpo": ["group_size"],
  "jobs.v1.Loop": ["steps"],
  "types.v1.Module": ["digest"],
  "types.v1.Role": ["name"],
  "types.v1.ExternalModel": ["base_url", "model"],
};

/** Of these, exactly one member must be there; of other oneofs, at most one. */
export const NEEDED_ONEOFS: readonly string[] = ["jobs.v1.Dataset.source", "jobs.v1.Algorithm.kind"];

/** The object's name is the job's name; code travels by the bundle store. */
export const OMITTED: readonly string[] = ["jobs.v1.JobSpec.name", "types.v1.Module.code"];

/** What may change after submission; everything else of `spec.job` must stay. */
export const MUTABLE: readonly string[] = ["jobs.v1.JobSpec.timeout", "jobs.v1.JobSpec.weight", "jobs.v1.Loop.steps"];

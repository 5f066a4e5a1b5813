// SPDX-License-Identifier: Apache-2.0
import { type Filled, withDefaults } from "@whetstone/contract/defaults";
import {
  type DeadlinePolicy,
  type JobSpec,
  JobSpecSchema,
  LoopSchema,
  type Validation,
  ValidationVariantSchema,
} from "@whetstone/proto/jobs/v1/jobs";
import { durationMs } from "./duration.ts";
import { AdvantageEstimator, Purpose, type Sampling } from "@whetstone/proto/types/v1/types";

/** How a group with voided members is treated; see `GroupPolicy` in jobs.proto. */
export type GroupRule =
  { readonly kind: "complete" } | { readonly kind: "partial"; readonly minSize: number } | { readonly kind: "drop" };

export interface CompiledVariant {
  readonly name: string;
  readonly attempts: number;
  readonly sampling: Sampling | undefined;
}

export interface CompiledValidation {
  readonly everySteps: number;
  readonly atStart: boolean;
  readonly atEnd: boolean;
  /** Most episodes dispatched at a time; Infinity: all. */
  readonly concurrency: number;
  readonly variants: readonly CompiledVariant[];
}

/** A valid JobSpec with every default filled in. Nothing downstream looks at absence again. */
export interface CompiledJob {
  readonly name: string;
  readonly seed: number;
  readonly steps: number;
  readonly batchGroups: number;
  readonly groupSize: number;
  /** Whether each group has a baseline episode beside it. */
  readonly hasBaselines: boolean;
  /** Most groups of a batch that others take the place of, because they have no signal. 0: they are kept. */
  readonly maxReplacements: number;
  readonly maxPolicyLag: number;
  readonly purpose: Purpose.TRAIN | Purpose.DEMONSTRATION;
  readonly groupRule: GroupRule;
  readonly deadlinePolicy: DeadlinePolicy;
  readonly validation: CompiledValidation | undefined;
  /** Milliseconds. Undefined: the job has no deadline. */
  readonly timeoutMs: number | undefined;
  /** Milliseconds an episode may take. */
  readonly episodeTimeoutMs: number;
}

export function compileJob(given: JobSpec): CompiledJob {
  const spec = withDefaults(JobSpecSchema, given);
  const sft = spec.algorithm?.kind.case === "sft";
  const { steps = 0, batchGroups, maxPolicyLag, deadlinePolicy } = spec.loop ?? withDefaults(LoopSchema);
  return {
    name: spec.name,
    seed: Number(spec.seed),
    steps,
    batchGroups,
    groupSize: groupSize(spec),
    hasBaselines: hasBaselines(spec),
    maxReplacements: maxReplacements(spec, batchGroups),
    maxPolicyLag,
    purpose: sft ? Purpose.DEMONSTRATION : Purpose.TRAIN,
    groupRule: groupRule(spec),
    deadlinePolicy,
    validation: spec.validation && compileValidation(spec.validation, given.sampling),
    timeoutMs: spec.timeout && durationMs(spec.timeout),
    episodeTimeoutMs: durationMs(spec.limits.episodeTimeout),
  };
}

function groupSize(spec: JobSpec): number {
  return spec.algorithm?.kind.case === "policyGradient" ? spec.algorithm.kind.value.groupSize : 1;
}

function maxReplacements({ algorithm }: JobSpec, batchGroups: number): number {
  if (algorithm?.kind.case !== "policyGradient") return 0;
  const { dynamicSampling } = algorithm.kind.value;
  return dynamicSampling ? (dynamicSampling.maxReplacements ?? batchGroups) : 0;
}

/** Whether an advantage of the job, or of one of its roles, is taken beside a greedy episode. */
function hasBaselines({ algorithm, roles }: JobSpec): boolean {
  if (algorithm?.kind.case !== "policyGradient") return false;
  return [algorithm.kind.value, ...roles].some(({ advantage }) => advantage === AdvantageEstimator.REMAX);
}

function groupRule(spec: JobSpec): GroupRule {
  const policy = spec.loop?.groupPolicy?.kind;
  switch (policy?.case) {
    case "complete":
      return { kind: "complete" };
    case "drop":
      return { kind: "drop" };
    case "partial":
      return { kind: "partial", minSize: policy.value.minSize };
    default:
      return { kind: "partial", minSize: Math.min(2, groupSize(spec)) };
  }
}

function compileValidation(validation: Filled<Validation>, sampling: Sampling | undefined): CompiledValidation {
  const { everySteps, atStart, atEnd, concurrency = Infinity, variants } = validation;
  const own = variants.map((variant) => ({
    name: variant.name,
    attempts: variant.attempts,
    sampling: variant.sampling ?? sampling,
  }));
  const { attempts } = withDefaults(ValidationVariantSchema);
  const only = { name: "sampled", attempts, sampling };
  return { everySteps, atStart, atEnd, concurrency, variants: own.length > 0 ? own : [only] };
}

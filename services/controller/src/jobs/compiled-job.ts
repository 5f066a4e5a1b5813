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

/** The variant of demonstrations that the trainer evaluates. */
const HELD_OUT = "heldout";
/** What was chosen and what was rejected, in the order of the group's samples. */
const PAIR = 2;

export interface CompiledValidation {
  /** Its tasks' demonstrations are evaluated by the trainer; nothing is played. */
  readonly isHeldOut: boolean;
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
  /** Of its share of engines and of environments' slots, beside other jobs'. */
  readonly weight: number;
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
  const { steps = 0, batchGroups, maxPolicyLag, deadlinePolicy } = spec.loop ?? withDefaults(LoopSchema);
  return {
    name: spec.name,
    seed: Number(spec.seed),
    weight: spec.weight,
    steps,
    batchGroups,
    groupSize: groupSize(spec),
    hasBaselines: hasBaselines(spec),
    maxReplacements: maxReplacements(spec, batchGroups),
    maxPolicyLag,
    purpose: isDemonstrated(spec) ? Purpose.DEMONSTRATION : Purpose.TRAIN,
    groupRule: groupRule(spec),
    deadlinePolicy,
    validation: spec.validation && compileValidation(spec, spec.validation, given.sampling),
    timeoutMs: spec.timeout && durationMs(spec.timeout),
    episodeTimeoutMs: durationMs(spec.limits.episodeTimeout),
  };
}

/** Whether the job trains given conversations, and samples nothing to train on. */
export function isDemonstrated({ algorithm }: JobSpec): boolean {
  return algorithm?.kind.case === "sft" || algorithm?.kind.case === "dpo";
}

/** Nobody is there to play the validation's tasks: the trainer evaluates their demonstrations. */
export function isHeldOut(spec: JobSpec): boolean {
  return spec.validation !== undefined && spec.agent === undefined && isDemonstrated(spec);
}

function groupSize({ algorithm }: JobSpec): number {
  switch (algorithm?.kind.case) {
    case "policyGradient":
      return algorithm.kind.value.groupSize;
    case "dpo":
      return PAIR;
    default:
      return 1;
  }
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

function compileValidation(
  spec: JobSpec,
  validation: Filled<Validation>,
  sampling: Sampling | undefined,
): CompiledValidation {
  const { everySteps, atStart, atEnd, concurrency = Infinity, variants } = validation;
  if (isHeldOut(spec)) {
    const only = { name: HELD_OUT, attempts: groupSize(spec), sampling: undefined };
    return { isHeldOut: true, everySteps, atStart, atEnd, concurrency, variants: [only] };
  }
  const own = variants.map((variant) => ({
    name: variant.name,
    attempts: variant.attempts,
    sampling: variant.sampling ?? sampling,
  }));
  const { attempts } = withDefaults(ValidationVariantSchema);
  const only = { name: "sampled", attempts, sampling };
  return { isHeldOut: false, everySteps, atStart, atEnd, concurrency, variants: own.length > 0 ? own : [only] };
}

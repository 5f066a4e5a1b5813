// SPDX-License-Identifier: Apache-2.0
import type { JobSpec, ValidationVariant } from "@whetstone/proto/jobs/v1/jobs";
import { DeadlinePolicy } from "@whetstone/proto/jobs/v1/jobs";
import { durationMs } from "./duration.ts";
import { Purpose, type Sampling } from "@whetstone/proto/types/v1/types";

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

export function compileJob(spec: JobSpec): CompiledJob {
  const sft = spec.algorithm?.kind.case === "sft";
  const { steps = 0, batchGroups = 0, maxPolicyLag = 0, deadlinePolicy = 0 } = spec.loop ?? {};
  return {
    name: spec.name,
    seed: seedOf(spec),
    steps,
    batchGroups,
    groupSize: groupSize(spec),
    maxPolicyLag,
    purpose: sft ? Purpose.DEMONSTRATION : Purpose.TRAIN,
    groupRule: groupRule(spec, sft),
    deadlinePolicy: deadlinePolicy || DeadlinePolicy.VOID,
    validation: compileValidation(spec),
    timeoutMs: spec.timeout && durationMs(spec.timeout),
    episodeTimeoutMs: spec.limits?.episodeTimeout ? durationMs(spec.limits.episodeTimeout) : 300_000,
  };
}

function seedOf(spec: JobSpec): number {
  return Number(spec.seed ?? 0n);
}

function groupSize(spec: JobSpec): number {
  return spec.algorithm?.kind.case === "grpo" ? spec.algorithm.kind.value.groupSize : 1;
}

function groupRule(spec: JobSpec, sft: boolean): GroupRule {
  const policy = spec.loop?.groupPolicy?.kind;
  switch (policy?.case) {
    case "complete":
      return { kind: "complete" };
    case "drop":
      return { kind: "drop" };
    case "partial":
      return { kind: "partial", minSize: policy.value.minSize };
    default:
      return { kind: "partial", minSize: sft ? 1 : 2 };
  }
}

function compileValidation(spec: JobSpec): CompiledValidation | undefined {
  const validation = spec.validation;
  if (!validation) return undefined;
  return {
    everySteps: validation.everySteps ?? 0,
    atStart: validation.atStart ?? true,
    atEnd: validation.atEnd ?? true,
    concurrency: validation.concurrency ?? Infinity,
    variants:
      validation.variants.length > 0 ? validation.variants.map((v) => compileVariant(v, spec)) : [defaultVariant(spec)],
  };
}

function compileVariant(variant: ValidationVariant, spec: JobSpec): CompiledVariant {
  return { name: variant.name, attempts: variant.attempts ?? 1, sampling: variant.sampling ?? spec.sampling };
}

function defaultVariant(spec: JobSpec): CompiledVariant {
  return { name: "sampled", attempts: 1, sampling: spec.sampling };
}

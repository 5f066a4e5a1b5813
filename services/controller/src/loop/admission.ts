// SPDX-License-Identifier: Apache-2.0
import { Purpose } from "@whetstone/proto/types/v1/types";
import type { CompiledJob } from "../jobs/compiled-job.ts";

/** Batches of demonstrations that are rendered ahead of the trainer. They are not sampled, so only I8 bounds them. */
const DEMONSTRATION_LEAD = 8;

/** What the loop knows when it decides which batches may be dispatched. */
export interface AdmissionFacts {
  /** Newest version that every serving engine has. */
  readonly liveVersion: number;
  /** Batches 0 … n-1 that were dispatched before. */
  readonly dispatchedBatches: number;
}

type AdmittedJob = Pick<CompiledJob, "steps" | "maxPolicyLag" | "purpose">;

/**
 * The batches to dispatch now, oldest first.
 *
 * I3: batch k trains version k into k + 1. Dispatched once version k - maxPolicyLag is live, none of its tokens can be
 * older than that, whatever order episodes finish in.
 */
export function admissibleBatches(job: AdmittedJob, facts: AdmissionFacts): number[] {
  const lead = job.purpose === Purpose.DEMONSTRATION ? DEMONSTRATION_LEAD : job.maxPolicyLag;
  const last = Math.min(facts.liveVersion + lead, job.steps - 1);
  const batches: number[] = [];
  for (let batch = facts.dispatchedBatches; batch <= last; batch++) batches.push(batch);
  return batches;
}

/** Whether a validation runs with `stepsDone` optimizer steps behind the weights. */
export function validationDue(job: Pick<CompiledJob, "steps" | "validation">, stepsDone: number): boolean {
  const validation = job.validation;
  if (!validation) return false;
  if (stepsDone === 0 && validation.atStart) return true;
  if (stepsDone === job.steps && validation.atEnd) return true;
  return stepsDone > 0 && validation.everySteps > 0 && stepsDone % validation.everySteps === 0;
}

/** Whether version v is sampled from: not while SFT or DPO trains between validations. Version 0 also names the template. */
export function versionIsServed(job: Pick<CompiledJob, "steps" | "validation" | "purpose">, version: number): boolean {
  const samples = job.purpose === Purpose.TRAIN && version < job.steps;
  const isPlayed = job.validation?.isHeldOut !== true && validationDue(job, version);
  return version === 0 || samples || isPlayed;
}

// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { baselineGroup, deriveSeed, dispatchedGroups, episodeId, trainGroup } from "@whetstone/core";
import { type DispatchRecord, type RolloutTask, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { type Episode, Purpose, SamplingSchema, type Task, TaskSchema } from "@whetstone/proto/types/v1/types";
import type { CompiledJob, CompiledVariant } from "../../jobs/compiled-job.ts";

/** One episode of a group of a batch. */
export interface TrainPlace {
  readonly id: string;
  readonly group: number;
  readonly sample: number;
  /** Played greedily beside the group, and never trained. */
  readonly isBaseline: boolean;
}

/** What was dispatched of a batch. */
export type Dispatched = Pick<DispatchRecord, "step" | "samples" | "baselines" | "groups">;

/** The places of a batch, in order. */
export function* trainPlaces({ name }: Pick<CompiledJob, "name">, dispatched: Dispatched): Generator<TrainPlace> {
  for (const [i, group] of dispatchedGroups(dispatched).entries()) {
    yield* placesOf(name, group, dispatched.samples[i] ?? 0, false);
    yield* placesOf(name, group, dispatched.baselines[i] ?? 0, true);
  }
}

function* placesOf(job: string, group: number, count: number, isBaseline: boolean): Generator<TrainPlace> {
  const name = groupName(group, isBaseline);
  for (let sample = 0; sample < count; sample++) yield { id: episodeId(job, name, sample), group, sample, isBaseline };
}

function groupName(group: number, isBaseline: boolean): string {
  return isBaseline ? baselineGroup(group) : trainGroup(group);
}

/** Group name of a validation task. */
export function validationGroup(step: number, variant: string, task: number): string {
  return `v${step}-${variant}-${task}`;
}

/** The task of one episode of a training group; attempts share id and seed (I1). */
export function trainTask(spec: JobSpec, job: CompiledJob, at: Omit<TrainPlace, "id"> & { task: Task }): RolloutTask {
  const group = groupName(at.group, at.isBaseline);
  const greedy = create(SamplingSchema, { ...spec.sampling, temperature: 0 });
  const sampling = at.isBaseline ? greedy : spec.sampling;
  return create(RolloutTaskSchema, {
    ...common(spec, job, { group, sample: at.sample, task: at.task }),
    purpose: at.isBaseline ? Purpose.BASELINE : job.purpose,
    ...(sampling && { sampling }),
  });
}

/** The task of one attempt at a validation task. */
export function validationTask(
  spec: JobSpec,
  job: CompiledJob,
  at: { step: number; variant: CompiledVariant; index: number; attempt: number; task: Task },
): RolloutTask {
  const group = validationGroup(at.step, at.variant.name, at.index);
  return create(RolloutTaskSchema, {
    ...common(spec, job, { group, sample: at.attempt, task: at.task }),
    purpose: job.validation?.isHeldOut === true ? Purpose.DEMONSTRATION : Purpose.VALIDATION,
    ...(at.variant.sampling && { sampling: at.variant.sampling }),
  });
}

/** The task of a sealed episode once more, for a replay: the model's answers are recorded, so it has no sampling. */
export function replayTask(spec: JobSpec, job: CompiledJob, episode: Episode): RolloutTask {
  const { group, sample, seed, purpose, task = create(TaskSchema) } = episode;
  return create(RolloutTaskSchema, { ...common(spec, job, { group, sample, task }), seed, purpose });
}

function common(spec: JobSpec, job: CompiledJob, at: { group: string; sample: number; task: Task }) {
  return {
    episodeId: episodeId(job.name, at.group, at.sample),
    job: job.name,
    group: at.group,
    sample: at.sample,
    task: at.task,
    seed: BigInt(deriveSeed(job.seed, at.group, at.sample)),
    model: job.name,
    deadlinePolicy: job.deadlinePolicy,
    roles: spec.roles,
    // Without its code, which whoever plays it fetches once.
    ...(spec.module && { module: { digest: spec.module.digest, sandbox: spec.module.sandbox } }),
    ...(spec.agent && { agent: spec.agent }),
    ...(spec.environment && { environment: spec.environment }),
    ...(spec.limits && { limits: spec.limits }),
  };
}

// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { trainGroup } from "@whetstone/core";
import {
  type BaselineEntry,
  BaselineEntrySchema,
  type BatchEntry,
  BatchEntrySchema,
  type VoidedEntry,
  VoidedEntrySchema,
} from "@whetstone/proto/events/v1/events";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import type { CompiledJob } from "../../jobs/compiled-job.ts";
import { judge, type Member, type Sound, soundOf } from "./members.ts";
import type { FindEpisode } from "./sealed-episode.ts";
import { type Dispatched, trainPlaces } from "./tasks.ts";

/** Every dispatched episode of a batch, in one of the lists. */
export interface Settled {
  readonly entries: BatchEntry[];
  readonly baselines: BaselineEntry[];
  readonly voided: VoidedEntry[];
}

/** What is to be done about a batch now. */
export type BatchPlan =
  | { readonly kind: "waiting"; readonly missing: number }
  /** More is to be dispatched: so much of each group in all. Groups beyond those that there are replace others. */
  | ({ readonly kind: "refill" } & Pick<Dispatched, "samples" | "baselines">)
  | ({ readonly kind: "complete" } & Settled);

type Rules = Pick<
  CompiledJob,
  | "name"
  | "batchGroups"
  | "groupSize"
  | "hasBaselines"
  | "maxReplacements"
  | "groupRule"
  | "deadlinePolicy"
  | "maxPolicyLag"
>;

interface Group {
  readonly name: string;
  readonly members: Member[];
  readonly baselines: Member[];
}

/**
 * Decides from what is sealed whether a batch is complete. Every dispatched id ends as an entry, as a baseline or as voided
 * (I2). A batch may have tens of thousands of them: this yields after each.
 */
export function* planBatch(job: Rules, dispatched: Dispatched, find: FindEpisode): Generator<void, BatchPlan> {
  const groups = new Map<number, Group>();
  let missing = 0;
  for (const { id, group: index, isBaseline } of trainPlaces(job, dispatched)) {
    const group = groups.get(index) ?? { name: trainGroup(index), members: [], baselines: [] };
    groups.set(index, group);
    const member = judge(job, dispatched.step, id, find(id));
    if (member.kind === "pending") missing++;
    (isBaseline ? group.baselines : group.members).push(member);
    yield;
  }
  if (missing > 0) return { kind: "waiting", missing };
  const all = [...groups.values()];
  const replacing = replacementsFor(job, all);
  const samples = all.map(({ members }) => members.length + refillsFor(job, members, job.groupSize));
  const baselines = job.hasBaselines
    ? all.map((group) => group.baselines.length + refillsFor(job, group.baselines, 1))
    : [];
  const isMore = (wanted: readonly number[], had: readonly number[]): boolean =>
    wanted.some((n, i) => n > (had[i] ?? 0));
  for (let i = 0; i < replacing; i++) {
    samples.push(job.groupSize);
    if (job.hasBaselines) baselines.push(1);
  }
  if (isMore(samples, dispatched.samples) || isMore(baselines, dispatched.baselines))
    return { kind: "refill", samples, baselines };
  return { kind: "complete", ...(yield* settle(job, all)) };
}

/** How many further ones the policy `complete` asks for; at most as many again as were wanted in all. */
function refillsFor(job: Rules, members: readonly Member[], size: number): number {
  if (job.groupRule.kind !== "complete") return 0;
  const lacking = size - soundOf(members).length;
  return Math.max(0, Math.min(lacking, 2 * size - members.length));
}

/** How many further groups are dispatched in place of those without a signal. */
function replacementsFor(job: Rules, groups: readonly Group[]): number {
  const flat = groups.filter((group) => reasonToDrop(job, group) === "NoSignal").length;
  const replaced = groups.length - job.batchGroups;
  return Math.max(0, Math.min(flat, job.maxReplacements) - replaced);
}

function* settle(job: Rules, groups: readonly Group[]): Generator<void, Settled> {
  const settled: Settled = { entries: [], baselines: [], voided: [] };
  for (const group of groups) {
    const reason = reasonToDrop(job, group);
    for (const member of group.members) {
      if (member.kind === "sound" && reason === undefined) settled.entries.push(entryOf(member, group.name));
      else settled.voided.push(voidedOf(member, reason));
      yield;
    }
    for (const one of group.baselines) {
      if (one.kind === "sound" && reason === undefined) settled.baselines.push(baselineOf(one, group.name));
      else settled.voided.push(voidedOf(one, reason));
    }
  }
  return settled;
}

type DropReason = "GroupIncomplete" | "NoSignal";

/** Undefined: the group is trained. */
function reasonToDrop(job: Rules, group: Group): DropReason | undefined {
  if (!isEnough(job, group)) return "GroupIncomplete";
  const rewards = new Set(soundOf(group.members).map(({ episode }) => episode.summary.reward));
  return job.maxReplacements > 0 && rewards.size === 1 ? "NoSignal" : undefined;
}

/** Without its baseline a group has nothing to be compared with, whatever the policy. */
function isEnough(job: Rules, { members, baselines }: Group): boolean {
  if (job.hasBaselines && soundOf(baselines).length === 0) return false;
  const sound = soundOf(members).length;
  switch (job.groupRule.kind) {
    case "complete":
      return sound >= job.groupSize;
    case "partial":
      return sound >= job.groupRule.minSize;
    case "drop":
      return sound === members.length;
  }
}

/** A member as a manifest lists it. */
export function entryOf(member: Sound, group: string): BatchEntry {
  const { minPolicyVersion, maxPolicyVersion } = member.episode.summary;
  return create(BatchEntrySchema, {
    ...named(member, group),
    ...(minPolicyVersion !== undefined && { minPolicyVersion }),
    ...(maxPolicyVersion !== undefined && { maxPolicyVersion }),
  });
}

function baselineOf(member: Sound, group: string): BaselineEntry {
  return create(BaselineEntrySchema, named(member, group));
}

function named({ id: episodeId, episode: { sequence, summary } }: Sound, group: string) {
  return { episodeId, group, sequence, digest: summary.digest, reward: summary.reward };
}

function voidedOf(member: Member, reasonOfGroup: DropReason = "GroupIncomplete"): VoidedEntry {
  const failureClass = member.kind === "void" ? member.failureClass : FailureClass.NONE;
  const reason = member.kind === "void" ? member.reason : reasonOfGroup;
  return create(VoidedEntrySchema, { episodeId: member.id, failureClass, reason });
}

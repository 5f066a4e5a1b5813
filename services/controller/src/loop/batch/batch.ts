// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { episodeId, trainGroup } from "@whetstone/core";
import {
  type BatchEntry,
  BatchEntrySchema,
  type VoidedEntry,
  VoidedEntrySchema,
} from "@whetstone/proto/events/v1/events";
import { DeadlinePolicy } from "@whetstone/proto/jobs/v1/jobs";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import type { CompiledJob } from "../../jobs/compiled-job.ts";
import type { FindEpisode, SealedEpisode } from "./sealed-episode.ts";

/** What is to be done about a batch now. */
export type BatchPlan =
  | { readonly kind: "waiting"; readonly missing: number }
  | { readonly kind: "refill"; readonly samples: readonly number[] }
  | { readonly kind: "complete"; readonly entries: BatchEntry[]; readonly voided: VoidedEntry[] };

type Rules = Pick<CompiledJob, "name" | "batchGroups" | "groupSize" | "groupRule" | "deadlinePolicy" | "maxPolicyLag">;

type Member =
  | { readonly kind: "pending"; readonly id: string }
  | { readonly kind: "sound"; readonly id: string; readonly episode: SealedEpisode }
  | { readonly kind: "void"; readonly id: string; readonly failureClass: FailureClass; readonly reason: string };

/**
 * Decides from what is sealed whether a batch is complete. Every dispatched id ends as an entry or as voided (I2). A batch may
 * have tens of thousands of them: this yields after each.
 * @param samples samples dispatched so far, one number a group of the batch.
 */
export function* planBatch(
  job: Rules,
  step: number,
  samples: readonly number[],
  find: FindEpisode,
): Generator<void, BatchPlan> {
  const groups: Member[][] = [];
  let missing = 0;
  for (const [i, count] of samples.entries()) {
    const members: Member[] = [];
    for (let sample = 0; sample < count; sample++) {
      const id = episodeId(job.name, trainGroup(step * job.batchGroups + i), sample);
      const member = judge(job, step, id, find(id));
      if (member.kind === "pending") missing++;
      members.push(member);
      yield;
    }
    groups.push(members);
  }
  if (missing > 0) return { kind: "waiting", missing };
  const wanted = groups.map((members) => members.length + refillsFor(job, members));
  if (wanted.some((count, i) => count > (samples[i] ?? 0))) return { kind: "refill", samples: wanted };
  return yield* settle(job, step, groups);
}

function judge(job: Rules, step: number, id: string, episode: SealedEpisode | undefined): Member {
  if (!episode) return { kind: "pending", id };
  const { summary } = episode;
  const voided = (reason: string): Member => ({ kind: "void", id, failureClass: summary.failureClass, reason });
  switch (summary.failureClass) {
    case FailureClass.NONE:
    case FailureClass.POLICY:
      break;
    case FailureClass.TASK:
      return voided("TaskBroken");
    case FailureClass.DEADLINE:
      if (job.deadlinePolicy === DeadlinePolicy.VOID) return voided("Deadline");
      break;
    default:
      return voided("RetriesExhausted");
  }
  if (summary.unlabelledTokens > 0) return voided("Unlabelled");
  if (summary.sampledTokens + summary.demonstrationTokens === 0) return voided("NoTokens");
  if (summary.notTrainable !== "") return voided("NotTrainable");
  // Admission makes this impossible (I3); if it happens all the same, the episode must not be trained.
  if (summary.minPolicyVersion !== undefined && Number(summary.minPolicyVersion) < step - job.maxPolicyLag)
    return voided("Stale");
  return { kind: "sound", id, episode };
}

/** How many further samples the policy `complete` asks for; at most group_size extra in all. */
function refillsFor(job: Rules, members: readonly Member[]): number {
  if (job.groupRule.kind !== "complete") return 0;
  const lacking = job.groupSize - members.filter((member) => member.kind === "sound").length;
  return Math.max(0, Math.min(lacking, 2 * job.groupSize - members.length));
}

function* settle(job: Rules, step: number, groups: readonly Member[][]): Generator<void, BatchPlan> {
  const entries: BatchEntry[] = [];
  const voided: VoidedEntry[] = [];
  for (const [i, members] of groups.entries()) {
    const kept = keepsGroup(job, members);
    for (const member of members) {
      if (member.kind === "sound" && kept) entries.push(entryOf(member, `g${step * job.batchGroups + i}`));
      else voided.push(voidedOf(member));
      yield;
    }
  }
  return { kind: "complete", entries, voided };
}

function keepsGroup(job: Rules, members: readonly Member[]): boolean {
  const sound = members.filter((member) => member.kind === "sound").length;
  switch (job.groupRule.kind) {
    case "complete":
      return sound >= job.groupSize;
    case "partial":
      return sound >= job.groupRule.minSize;
    case "drop":
      return sound === members.length;
  }
}

function entryOf(member: Extract<Member, { kind: "sound" }>, group: string): BatchEntry {
  const { sequence, summary } = member.episode;
  return create(BatchEntrySchema, {
    episodeId: member.id,
    group,
    sequence,
    digest: summary.digest,
    reward: summary.reward,
    ...(summary.minPolicyVersion !== undefined && { minPolicyVersion: summary.minPolicyVersion }),
    ...(summary.maxPolicyVersion !== undefined && { maxPolicyVersion: summary.maxPolicyVersion }),
  });
}

function voidedOf(member: Member): VoidedEntry {
  const failureClass = member.kind === "void" ? member.failureClass : FailureClass.NONE;
  const reason = member.kind === "void" ? member.reason : "GroupIncomplete";
  return create(VoidedEntrySchema, { episodeId: member.id, failureClass, reason });
}

// SPDX-License-Identifier: Apache-2.0
import { DeadlinePolicy } from "@whetstone/proto/jobs/v1/jobs";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import type { CompiledJob } from "../../jobs/compiled-job.ts";
import type { SealedEpisode } from "./sealed-episode.ts";

export type Sound = { readonly kind: "sound"; readonly id: string; readonly episode: SealedEpisode };

/** A dispatched episode of a batch: not sealed yet, fit to be used, or not. */
export type Member =
  | { readonly kind: "pending"; readonly id: string }
  | Sound
  | { readonly kind: "void"; readonly id: string; readonly failureClass: FailureClass; readonly reason: string };

/** The same for what is trained and for baselines: what a step uses is labelled (I5), not stale (I3) and no failure (I6). */
export function judge(
  job: Pick<CompiledJob, "deadlinePolicy" | "maxPolicyLag">,
  step: number,
  id: string,
  episode: SealedEpisode | undefined,
): Member {
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
  // Admission makes this impossible (I3); if it happens all the same, the episode must not be used.
  if (summary.minPolicyVersion !== undefined && Number(summary.minPolicyVersion) < step - job.maxPolicyLag)
    return voided("Stale");
  return { kind: "sound", id, episode };
}

export function soundOf(members: readonly Member[]): Sound[] {
  return members.filter((member) => member.kind === "sound");
}

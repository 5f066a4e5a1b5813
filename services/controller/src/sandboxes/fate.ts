// SPDX-License-Identifier: Apache-2.0
import { SandboxFate } from "@whetstone/proto/sandboxes/v1/sandboxes";
import type { PodEnd, SandboxPod } from "../operator/sandbox-pool/pods.ts";

export interface Fate {
  readonly fate: SandboxFate;
  readonly message: string;
}

/** What has become of a claimed pod. Whose fault an end is decides what an episode counts for (I6): only what is sure is the policy's. */
export function fateOf(pod: SandboxPod | undefined, now: number): Fate {
  if (pod === undefined) return { fate: SandboxFate.GONE, message: "its pod was deleted" };
  const { ended, claim, given, terminating, name } = pod;
  if (!given) return { fate: SandboxFate.GONE, message: `its pod was deleted; ${name} is another in its place` };
  if (ended) return fateOfEnd(ended, name);
  if (terminating) return { fate: SandboxFate.GONE, message: `pod ${name} was deleted` };
  const isOver = claim !== undefined && now >= claim.until;
  return { fate: isOver ? SandboxFate.EXPIRED : SandboxFate.THERE, message: "" };
}

function fateOfEnd({ reason, message }: PodEnd, name: string): Fate {
  if (reason === "OOMKilled") return { fate: SandboxFate.MEMORY, message };
  if (reason === "Evicted" && /ephemeral|emptydir/iu.test(message)) return { fate: SandboxFate.DISK, message };
  // The daemon ends well by its clock only.
  if (reason === "Completed" || reason === "DeadlineExceeded") return { fate: SandboxFate.EXPIRED, message: "" };
  return { fate: SandboxFate.GONE, message: `pod ${name} ended, ${reason}: ${message}` };
}

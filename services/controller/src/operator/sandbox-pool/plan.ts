// SPDX-License-Identifier: Apache-2.0
// What a sandbox pool is to do next: a pure function. S1: never more pods than `max`, those that leave included. S2: a claimed pod
// goes when its claim is over, or its owner is gone, or it has ended and nobody asked for so long; never for another reason.
// S3: nobody waits for a pod of an older template: it is made anew while it is unclaimed. S4: one whose start has failed is made anew
// after a while only, and meanwhile says why.
import { isForGood, type SandboxPod } from "./pods.ts";

export interface DesiredSandboxes {
  readonly warm: number;
  readonly max: number;
  readonly template: string;
}

export interface SandboxFacts {
  readonly pods: readonly SandboxPod[];
  /** Whether the pod is there that made a claim. */
  readonly isThere: (owner: string) => boolean;
  readonly now: number;
}

export interface SandboxPlan {
  /** Ordinals. */
  readonly create: readonly number[];
  readonly remove: readonly SandboxPod[];
  /** After this plan: could be claimed; will be; are. */
  readonly warm: readonly SandboxPod[];
  readonly starting: readonly SandboxPod[];
  readonly claimed: readonly SandboxPod[];
}

/** Its user, or whoever looks at the pool, may ask what became of it. */
const ENDED_MS = 10_000;
/** Clocks differ, and whoever has it may just be closing it. */
const LATE_MS = 2_000;

export function planSandboxes(desired: DesiredSandboxes, facts: SandboxFacts): SandboxPlan {
  const present = facts.pods.filter(({ terminating }) => !terminating);
  const claimed = present.filter(({ claim }) => claim !== undefined);
  const over = claimed.filter((pod) => isOver(pod, facts));
  const free = present.filter(({ claim }) => claim === undefined);
  const useful = free.filter(
    (pod) => pod.template === desired.template && (pod.ended === undefined || hasJustFailed(pod, facts)),
  );
  const kept = [...useful].sort((a, b) => Number(b.ready) - Number(a.ready) || a.createdAt - b.createdAt);
  const staying = kept.slice(0, desired.warm);
  const room = desired.max - facts.pods.filter(({ ended }) => ended === undefined).length;
  const missing = Math.max(0, Math.min(desired.warm - staying.length, room));
  return {
    create: freeOrdinals(facts.pods, missing),
    remove: [...over, ...free.filter((pod) => !staying.includes(pod))],
    warm: staying.filter(({ ready }) => ready),
    starting: staying.filter(({ ready }) => !ready),
    claimed: claimed.filter((pod) => !over.includes(pod)),
  };
}

/** S4 */
function hasJustFailed({ ended, trouble }: SandboxPod, { now }: SandboxFacts): boolean {
  return ended !== undefined && isForGood(trouble) && now < ended.at + ENDED_MS;
}

/** S2 */
function isOver({ claim, ended }: SandboxPod, { now, isThere }: SandboxFacts): boolean {
  if (claim === undefined) return false;
  if (now >= claim.until + LATE_MS) return true;
  if (claim.owner !== "" && !isThere(claim.owner)) return true;
  return ended !== undefined && now >= ended.at + ENDED_MS;
}

function freeOrdinals(pods: readonly SandboxPod[], count: number): number[] {
  const used = new Set(pods.map(({ name }) => Number(/-(\d+)$/u.exec(name)?.[1] ?? -1)));
  const free: number[] = [];
  for (let ordinal = 0; free.length < count; ordinal += 1) if (!used.has(ordinal)) free.push(ordinal);
  return free;
}

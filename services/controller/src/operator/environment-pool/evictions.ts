// SPDX-License-Identifier: Apache-2.0
/** Which pods a cluster autoscaler may take away: those where nothing is open. Pure. */
import type { RunnerPod } from "./plan.ts";

/** Read by the cluster autoscaler and by Karpenter's kin; a user's own word in the pool's template stands. */
export const SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/** Idle for less is between two steps of a job: no write for that. */
const IDLE_MS = 60_000;
/** Marks of one look; the next ones follow with the next look. */
const AT_ONCE = 40;

export interface EvictionMark {
  readonly pod: RunnerPod;
  readonly safe: boolean;
}

/**
 * Busy pods at once, idle ones when they were it for a minute: so a pod is written to once when a job begins to use it and once
 * when that is over, whatever the number of its episodes.
 * @param idleSince  by uid, milliseconds; kept by this function
 */
export function evictionMarks(
  pods: readonly RunnerPod[],
  { idleSince, now }: { readonly idleSince: Map<string, number>; readonly now: number },
): EvictionMark[] {
  const uids = new Set(pods.map(({ uid }) => uid));
  for (const uid of idleSince.keys()) if (!uids.has(uid)) idleSince.delete(uid);
  const marks: EvictionMark[] = [];
  for (const pod of pods) {
    if (pod.sessions > 0) idleSince.delete(pod.uid);
    else if (!idleSince.has(pod.uid)) idleSince.set(pod.uid, now);
    const safe = pod.sessions === 0;
    const isSettled = !safe || now - (idleSince.get(pod.uid) ?? now) >= IDLE_MS;
    if (pod.safeToEvict !== safe && isSettled) marks.push({ pod, safe });
  }
  return marks.sort((a, b) => Number(a.safe) - Number(b.safe)).slice(0, AT_ONCE);
}

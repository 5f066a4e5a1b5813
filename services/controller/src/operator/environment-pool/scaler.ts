// SPDX-License-Identifier: Apache-2.0
/** How many env-runners a pool that scales by itself has: out at once, in when they were not needed for a while. Pure. */
import type { PoolAutoscaling } from "./schema.ts";

/** What was needed at some time. */
export interface Need {
  readonly atMs: number;
  readonly runners: number;
}

export interface ScaleFacts {
  /** Sessions that would be open now if there were room. */
  readonly wantedSlots: number;
  readonly slotsPerWorker: number;
  /** Env-runners wanted until now. */
  readonly replicas: number;
  /** Oldest first, as returned before. Empty: nothing is known yet. */
  readonly history: readonly Need[];
  /** Since when needs are looked at. */
  readonly sinceMs: number;
  readonly nowMs: number;
}

export interface Scaled {
  readonly replicas: number;
  readonly history: readonly Need[];
}

/** The most that was needed within the cool-down; before that has passed once, at least what there is. */
export function scalePool({ min, max, cooldownSeconds }: PoolAutoscaling, facts: ScaleFacts): Scaled {
  const { wantedSlots, slotsPerWorker, replicas, nowMs, sinceMs } = facts;
  const clamp = (runners: number): number => Math.min(max, Math.max(min, runners));
  const need = { atMs: nowMs, runners: Math.ceil(wantedSlots / slotsPerWorker) };
  const from = nowMs - cooldownSeconds * 1000;
  // Of needs that a later one exceeds nothing will ever be asked again.
  const history = [...facts.history.filter(({ atMs, runners }) => atMs > from && runners > need.runners), need];
  const most = history[0]?.runners ?? 0;
  const isNew = sinceMs > from;
  return { replicas: clamp(isNew ? Math.max(replicas, most) : most), history };
}

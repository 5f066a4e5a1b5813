// SPDX-License-Identifier: Apache-2.0
// What a pool is to do next: a pure function of the desired state and the pods. P1: never more pods than wanted, those that leave not
// counted, and a few while the template changes. P2: who leaves: not ready, then idle, then fewest sessions, then newest; of an
// older template first. P3: a pod is deleted only when it has no session or its time is over. P4: a pod that drains is kept
// rather than another one made. P5: nothing here depends on what was planned before.

export interface RunnerPod {
  readonly name: string;
  readonly uid: string;
  /** Empty: none yet. */
  readonly ip: string;
  readonly ordinal: number;
  /** Hash of what it was made from. */
  readonly template: string;
  readonly createdAt: number;
  readonly ready: boolean;
  /** Its containers have ended, or it was evicted. */
  readonly ended: boolean;
  /** Somebody deletes it: it drains by itself. */
  readonly terminating: boolean;
  /** Milliseconds since 1970. Undefined: it does not drain. */
  readonly drainingSince: number | undefined;
  /** Sessions that it takes at once. */
  readonly slots: number;
  /** Sessions open there, as far as is known. */
  readonly sessions: number;
  /** Why it will not be ready by itself. Empty: nothing. */
  readonly trouble: string;
  /** What its annotation tells cluster autoscalers. */
  readonly safeToEvict: boolean;
}

export interface DesiredPool {
  readonly replicas: number;
  readonly template: string;
  readonly drainMs: number;
}

export interface PoolFacts {
  readonly pods: readonly RunnerPod[];
  /** Draining pods that said themselves that no session is open, by uid. */
  readonly empty: ReadonlySet<string>;
  /** Ordinals whose names somebody else's pods have. */
  readonly taken: ReadonlySet<number>;
  readonly now: number;
}

export interface PoolPlan {
  readonly create: readonly number[];
  readonly drain: readonly RunnerPod[];
  readonly undrain: readonly RunnerPod[];
  readonly remove: readonly RunnerPod[];
  /** Pods that belong to the desired state: neither ended nor leaving, after this plan. */
  readonly present: readonly RunnerPod[];
  /** After this plan, those that leave included. */
  readonly draining: readonly RunnerPod[];
}

/** Pods that may be there beyond the desired number while the template changes, as a share of it, and at least. */
const SURGE = 0.25;
/** Beyond the deadline, until sessions that were handed back are over. */
const LATE_MS = 15_000;

export function planPool(desired: DesiredPool, facts: PoolFacts): PoolPlan {
  const ended = facts.pods.filter(({ ended, terminating }) => ended && !terminating);
  const alive = facts.pods.filter((pod) => !pod.ended && !pod.terminating);
  const serving = alive.filter(({ drainingSince }) => drainingSince === undefined);
  const leaving = alive.filter(({ drainingSince }) => drainingSince !== undefined);
  const missing = desired.replicas - serving.length;
  const undrain = missing > 0 ? comeback(leaving, desired, facts).slice(0, missing) : [];
  const staying = [...serving, ...undrain];
  const drain = victims(staying, desired);
  const present = staying.filter((pod) => !drain.includes(pod));
  const draining = [...leaving.filter((pod) => !undrain.includes(pod)), ...drain];
  const isDone = (pod: RunnerPod): boolean => facts.empty.has(pod.uid) || isOverdue(pod, desired, facts.now);
  return {
    undrain,
    drain,
    create: freeOrdinals(facts, wantedNew(present, desired)),
    remove: [...ended, ...draining.filter(isDone)],
    present,
    draining: [...draining, ...facts.pods.filter(({ terminating, ended }) => terminating && !ended)],
  };
}

/** P4: the busiest first, of this template only, and none whose time is nearly over. */
function comeback(leaving: readonly RunnerPod[], desired: DesiredPool, { empty, now }: PoolFacts): RunnerPod[] {
  return leaving
    .filter(
      (pod) =>
        pod.template === desired.template && pod.ip !== "" && !isOverdue(pod, { drainMs: desired.drainMs / 2 }, now),
    )
    .filter(({ uid }) => !empty.has(uid))
    .sort((a, b) => b.sessions - a.sessions || a.ordinal - b.ordinal);
}

function isOverdue(pod: RunnerPod, { drainMs }: Pick<DesiredPool, "drainMs">, now: number): boolean {
  if (pod.ip === "") return true; // It never had a session.
  return pod.drainingSince !== undefined && now >= pod.drainingSince + drainMs + LATE_MS;
}

/** P1, P2 */
function victims(staying: readonly RunnerPod[], { replicas, template }: DesiredPool): RunnerPod[] {
  const current = staying.filter((pod) => pod.template === template);
  const old = staying.filter((pod) => pod.template !== template);
  const readyNow = Math.min(replicas, current.filter(({ ready }) => ready).length);
  // Pods of the older template stay until one of the newer has taken their place.
  const oldKept = Math.max(0, replicas - readyNow);
  const oldGone = byWorth(old).slice(0, Math.max(0, old.length - oldKept));
  const room = replicas + (old.length > 0 ? surge(replicas) : 0) - (old.length - oldGone.length);
  const currentGone = byWorth(current).slice(0, Math.max(0, current.length - Math.max(0, Math.min(replicas, room))));
  return [...oldGone, ...currentGone];
}

/** Least worth first. */
function byWorth(pods: readonly RunnerPod[]): RunnerPod[] {
  return [...pods].sort(
    (a, b) =>
      Number(a.ready) - Number(b.ready) ||
      a.sessions - b.sessions ||
      b.createdAt - a.createdAt ||
      b.ordinal - a.ordinal,
  );
}

function wantedNew(present: readonly RunnerPod[], { replicas, template }: DesiredPool): number {
  const current = present.filter((pod) => pod.template === template).length;
  const old = present.length - current;
  const room = replicas + (old > 0 ? surge(replicas) : 0) - present.length;
  return Math.max(0, Math.min(replicas - current, room));
}

function surge(replicas: number): number {
  return Math.max(1, Math.ceil(replicas * SURGE));
}

function freeOrdinals({ pods, taken }: PoolFacts, count: number): number[] {
  const used = new Set(pods.map(({ ordinal }) => ordinal));
  const free: number[] = [];
  for (let ordinal = 0; free.length < count; ordinal += 1)
    if (!used.has(ordinal) && !taken.has(ordinal)) free.push(ordinal);
  return free;
}

// SPDX-License-Identifier: Apache-2.0
/** What the status of a pool says. Pure. */
import { datedConditions } from "@whetstone/kube";
import type { PoolConditionChange, PoolStatus, StoredPool } from "./schema.ts";
import type { PoolPlan, RunnerPod } from "./plan.ts";
import { poolSelector } from "./pods.ts";

export interface StatusFacts {
  readonly wantedSlots: number;
  /** Names that somebody else's pods have. */
  readonly taken: readonly string[];
  /** Why the API server did not take a pod. Empty: it did. */
  readonly refused: string;
  readonly template: string;
  readonly now: number;
}

export function poolStatus(pool: StoredPool, plan: PoolPlan, facts: StatusFacts): PoolStatus {
  const { generation, name } = pool.metadata;
  const ready = plan.present.filter((pod) => pod.ready);
  const busy = sessionsOf(plan.present) + sessionsOf(plan.draining);
  const free = ready.length * pool.spec.slotsPerWorker - sessionsOf(ready);
  return {
    ...(generation !== undefined && { observedGeneration: generation }),
    replicas: plan.present.length,
    ready: ready.length,
    draining: plan.draining.length,
    busySlots: busy,
    freeSlots: Math.max(0, free),
    wantedSlots: facts.wantedSlots,
    selector: poolSelector(name),
    conditions: datedConditions(pool, conditionsOf(pool, plan, facts), facts.now),
  };
}

function sessionsOf(pods: readonly RunnerPod[]): number {
  return pods.reduce((sum, { sessions }) => sum + sessions, 0);
}

export function conditionsOf(
  { spec }: Pick<StoredPool, "spec">,
  plan: PoolPlan,
  facts: StatusFacts,
): PoolConditionChange[] {
  return [readiness(spec.replicas, plan), scaling(spec.replicas, plan, facts), degradation(plan, facts)];
}

function readiness(wanted: number, { present }: PoolPlan): PoolConditionChange {
  const type = "Ready";
  const ready = present.filter((pod) => pod.ready).length;
  if (wanted === 0)
    return {
      type,
      status: true,
      reason: "ScaledToZero",
      message: "no env-runner is wanted; tasks wait in their stream",
    };
  const message = `${ready} of ${wanted} env-runners are ready`;
  return ready >= wanted
    ? { type, status: true, reason: "AllReady", message }
    : { type, status: false, reason: "NotEnoughReady", message };
}

function scaling(
  wanted: number,
  { present, draining, create }: PoolPlan,
  { template }: StatusFacts,
): PoolConditionChange {
  const type = "Scaling";
  const old = present.filter((pod) => pod.template !== template).length;
  if (old > 0) return { type, status: true, reason: "RollingOut", message: `${old} env-runners of an older template` };
  if (create.length > 0 || present.length < wanted)
    return {
      type,
      status: true,
      reason: "ScalingOut",
      message: `${present.length} of ${wanted} env-runners are there`,
    };
  if (draining.length > 0)
    return { type, status: true, reason: "ScalingIn", message: `${draining.length} env-runners drain` };
  return { type, status: false, reason: "Settled", message: "" };
}

function degradation({ present }: PoolPlan, { taken, refused }: StatusFacts): PoolConditionChange {
  const type = "Degraded";
  const is = (reason: PoolConditionChange["reason"], message: string) =>
    ({ type, status: true, reason, message }) as const;
  if (refused !== "") return is("PodsRefused", refused);
  const troubled = present.filter(({ ready, trouble }) => !ready && trouble !== "");
  const [first] = troubled;
  if (first !== undefined) {
    const isPending = troubled.every(({ trouble }) => /^Unschedulable|^SchedulingGated/.test(trouble));
    return is(isPending ? "PodsPending" : "PodsFailing", `${troubled.length}, such as ${first.name}: ${first.trouble}`);
  }
  if (taken.length > 0) return is("NameTaken", `pods of somebody else: ${taken.join(", ")}`);
  return { type, status: false, reason: "Healthy", message: "" };
}

// SPDX-License-Identifier: Apache-2.0
/** What the status of a sandbox pool says. Pure. */
import { datedConditions } from "@whetstone/kube";
import type { SandboxPlan } from "./plan.ts";
import type { SandboxConditionChange, SandboxPoolStatus, StoredSandboxPool } from "./schema.ts";

export interface SandboxStatusFacts {
  /** Why the API server did not take a pod. Empty: it did. */
  readonly refused: string;
  readonly now: number;
}

export function sandboxStatus(
  pool: StoredSandboxPool,
  plan: SandboxPlan,
  { refused, now }: SandboxStatusFacts,
): SandboxPoolStatus {
  const { generation } = pool.metadata;
  return {
    ...(generation !== undefined && { observedGeneration: generation }),
    warm: plan.warm.length,
    starting: plan.starting.length + plan.create.length,
    claimed: plan.claimed.length,
    conditions: datedConditions(pool, [readiness(pool, plan), degradation(plan, refused)], now),
  };
}

function readiness({ spec }: StoredSandboxPool, { warm, claimed }: SandboxPlan): SandboxConditionChange {
  const type = "Ready";
  const message = `${warm.length} of ${spec.warm} pods are warm, ${claimed.length} are claimed`;
  if (warm.length >= spec.warm) return { type, status: true, reason: spec.warm === 0 ? "NoneKept" : "Warm", message };
  const isFull = claimed.length + warm.length >= spec.max;
  return { type, status: isFull, reason: isFull ? "AllInUse" : "Warming", message };
}

function degradation({ starting, claimed }: SandboxPlan, refused: string): SandboxConditionChange {
  const type = "Degraded";
  if (refused !== "") return { type, status: true, reason: "PodsRefused", message: refused };
  const troubled = [...starting, ...claimed].filter(({ ready, trouble }) => !ready && trouble !== "");
  const [first] = troubled;
  if (first === undefined) return { type, status: false, reason: "Healthy", message: "" };
  const isPending = troubled.every(({ trouble }) => /^Unschedulable|^SchedulingGated/u.test(trouble));
  const message = `${troubled.length}, such as ${first.name}: ${first.trouble}`;
  return { type, status: true, reason: isPending ? "PodsPending" : "PodsFailing", message };
}

// SPDX-License-Identifier: Apache-2.0
/** What the status of a sandbox pool says. Pure. */
import { datedConditions } from "@whetstone/kube";
import { NO_AGENT_SANDBOX } from "./agent-sandbox.ts";
import type { SandboxPlan } from "./plan.ts";
import type { SandboxConditionChange, SandboxPoolStatus, StoredSandboxPool } from "./schema.ts";

export interface SandboxStatusFacts {
  /** Why the API server did not take a pod. Empty: it did. */
  readonly refused: string;
  /** The pool is agent-sandbox's to serve, and the cluster does not have it. */
  readonly isAbsent: boolean;
  readonly now: number;
}

export function sandboxStatus(
  pool: StoredSandboxPool,
  plan: SandboxPlan,
  { refused, isAbsent, now }: SandboxStatusFacts,
): SandboxPoolStatus {
  const { generation } = pool.metadata;
  return {
    ...(generation !== undefined && { observedGeneration: generation }),
    warm: plan.warm.length,
    starting: plan.starting.length + plan.create.length,
    claimed: plan.claimed.length,
    conditions: datedConditions(pool, [isAbsent ? ABSENT : readiness(pool, plan), degradation(plan, refused)], now),
  };
}

const ABSENT: SandboxConditionChange = {
  ...{ type: "Ready", status: false, reason: "NoAgentSandbox", message: NO_AGENT_SANDBOX },
};

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

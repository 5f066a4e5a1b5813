// SPDX-License-Identifier: Apache-2.0
import type { UndatedFleetCondition, ReplicaStatus } from "./schema.ts";

export interface ConditionFacts {
  readonly wanted: number;
  /** None is wanted because no job needs it. */
  readonly idle: boolean;
  readonly ready: number;
  /** Pods that are there. */
  readonly present: number;
  /** Pods of an older template. */
  readonly outdated: number;
  readonly starting: number;
  readonly gatewayKnown: boolean;
  /** Several nodes a replica, and nothing on the cluster that makes such groups. */
  readonly refused: boolean;
  readonly taken: readonly string[];
  /** Replicas that have begun and stay; those that are Stale or Down are what is wrong. */
  readonly troubled: readonly ReplicaStatus[];
}

/** Ready, Degraded and Progressing, each always there, each with a reason of the closed list. */
export function conditionsOf(facts: ConditionFacts): UndatedFleetCondition[] {
  return [readiness(facts), degradation(facts), progress(facts)];
}

function readiness({ wanted, idle, ready, gatewayKnown, refused }: ConditionFacts): UndatedFleetCondition {
  const type = "Ready";
  if (refused) return { type, status: "False", ...LWS_MISSING };
  const message = `${ready} of ${wanted} replicas are ready`;
  if (!gatewayKnown)
    return { type, status: "Unknown", reason: "GatewayUnreachable", message: "the gateway does not answer" };
  if (idle) return { type, status: "True", reason: "NotNeeded", message: "no job may run; engines come when one does" };
  if (wanted === 0)
    return { type, status: "True", reason: "ScaledToZero", message: "no replica is wanted; calls wait" };
  return ready >= wanted
    ? { type, status: "True", reason: "AllReady", message }
    : { type, status: "False", reason: "NotEnoughReady", message };
}

function degradation({ gatewayKnown, refused, taken, troubled }: ConditionFacts): UndatedFleetCondition {
  const type = "Degraded";
  if (refused) return { type, status: "True", ...LWS_MISSING };
  if (taken.length > 0)
    return { type, status: "True", reason: "NameTaken", message: `pods of somebody else: ${taken.join(", ")}` };
  if (!gatewayKnown)
    return {
      type,
      status: "True",
      reason: "GatewayUnreachable",
      message: "the gateway does not answer: engines get no calls",
    };
  const bad = troubled.filter(({ state }) => state === "Down" || state === "Stale");
  const worst = bad.find(({ state }) => state === "Down") ?? bad[0];
  if (!worst) return { type, status: "False", reason: "Healthy", message: "" };
  const message = bad.map(({ name, state, reason = "" }) => `${name} ${state}: ${reason}`).join("; ");
  return {
    type,
    status: "True",
    reason: worst.state === "Down" ? "EngineDown" : "EngineStale",
    message,
  };
}

function progress({ wanted, present, outdated, starting, refused }: ConditionFacts): UndatedFleetCondition {
  const type = "Progressing";
  if (refused) return { type, status: "False", ...LWS_MISSING };
  if (present > wanted)
    return { type, status: "True", reason: "Scaling", message: `${present - wanted} replicas are leaving` };
  if (outdated > 0)
    return { type, status: "True", reason: "RollingOut", message: `${outdated} replicas are of an older template` };
  if (starting > 0) return { type, status: "True", reason: "Starting", message: `${starting} replicas are starting` };
  return { type, status: "False", reason: "Settled", message: "" };
}

const LWS_MISSING = {
  reason: "LeaderWorkerSetMissing",
  message:
    "nodesPerReplica above 1 needs LeaderWorkerSet (leaderworkerset.x-k8s.io/v1) on the cluster; install it, or use one node",
} as const;

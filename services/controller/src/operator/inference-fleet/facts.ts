// SPDX-License-Identifier: Apache-2.0
/** Facts, from the objects that cluster and gateway send. Pure. */
import { findCondition, isTrue, type Pod, type Stored } from "@whetstone/kube";
import { type Engine, EngineState } from "@whetstone/proto/inference/v1/inference";
import { LABELS, SERVING_GATE } from "./schema.ts";
import type { EngineFact, PodFact } from "./state.ts";

type Status = NonNullable<Pod["status"]>;

/** Undefined for a pod that is no replica: a worker of one on several nodes, or a name without an ordinal. */
export function podFact(pod: Stored<Pod>): PodFact | undefined {
  const { name, uid, labels = {}, deletionTimestamp } = pod.metadata;
  const ordinal = /-(\d+)$/.exec(name)?.[1];
  if (ordinal === undefined || (labels[WORKER_INDEX] ?? "0") !== "0") return undefined;
  return {
    ...{ name, uid, ordinal: Number(ordinal), template: labels[LABELS.template] ?? "" },
    terminating: deletionTimestamp !== undefined,
    ...statusFact(pod.status ?? {}),
  };
}

const WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index";

function statusFact(status: Status): Pick<PodFact, "phase" | "ip" | "alive" | "restarts" | "gate" | "waiting"> {
  const { phase = "Pending", podIP: ip = "", containerStatuses = [] } = status;
  const restarts = containerStatuses.reduce((sum, { restartCount }) => sum + restartCount, 0);
  const alive = isTrue(status.conditions, "ContainersReady");
  const gate = findCondition(status.conditions, SERVING_GATE);
  const waiting = unscheduled(status) ?? waitingReason(status) ?? "";
  return { phase, ip, alive, restarts, gate: gate && gate.status === "True", waiting };
}

function unscheduled({ conditions }: Status): string | undefined {
  const scheduled = findCondition(conditions, "PodScheduled");
  if (scheduled?.status !== "False") return undefined;
  return `${scheduled.reason ?? "Unscheduled"}: ${scheduled.message ?? ""}`;
}

function waitingReason({ initContainerStatuses = [], containerStatuses = [] }: Status): string | undefined {
  const waiting = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state?.waiting);
  const { reason, message } = waiting.find((one) => one?.reason !== undefined && !ORDINARY.has(one.reason)) ?? {};
  return reason && `${reason}${message ? `: ${message}` : ""}`;
}

const ORDINARY = new Set(["PodInitializing", "ContainerCreating"]);

const STATES: Partial<Record<EngineState, EngineFact["state"]>> = {
  [EngineState.SERVING]: "serving",
  [EngineState.QUARANTINED]: "quarantined",
};

export function engineFact(engine: Engine): EngineFact {
  const { id, url, inFlight, reason, policy } = engine;
  return {
    ...{ id, url, inFlight, reason, state: STATES[engine.state] ?? "fenced" },
    ...(policy && { policy: { name: policy.policy, version: Number(policy.policyVersion) } }),
  };
}

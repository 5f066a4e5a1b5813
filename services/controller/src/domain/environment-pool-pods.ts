// SPDX-License-Identifier: Apache-2.0
/** Pods of a pool, and facts about them. Pure: the same pool, the same text. */
import { createHash } from "node:crypto";
import { type Draft, ownedBy, type Pod, type Stored } from "@whetstone/kube";
import {
  DRAINING_SINCE,
  ENVIRONMENT_POOLS,
  ENVIRONMENT_PORT,
  type PoolContainer,
  POOL_LABELS,
  type PoolSpec,
  type StoredPool,
} from "./environment-pool.ts";
import type { RunnerPod } from "./environment-pool-plan.ts";

/** After the last session or the deadline: environments close, the process ends. */
export const GRACE_SECONDS = 30;
const CONTAINER = "env-runner";

/** Changes when, and only when, pods have to be made anew. */
export function poolTemplateHash(spec: PoolSpec): string {
  const text = JSON.stringify([podSpec(spec), spec.template.metadata ?? {}]);
  return createHash("sha256").update(text).digest("hex").slice(0, 10);
}

export function poolSelector(pool: string): string {
  return `${POOL_LABELS.pool}=${pool}`;
}

export function poolPodName(pool: string, ordinal: number): string {
  return `${pool}-${ordinal}`;
}

/** Names are by ordinal, so that a stale cache makes no pod twice. */
export function runnerPod(pool: StoredPool, ordinal: number): Draft<Pod> {
  const { name } = pool.metadata;
  const { labels, annotations } = pool.spec.template.metadata ?? {};
  return {
    metadata: {
      name: poolPodName(name, ordinal),
      labels: { ...labels, ...ownLabels(name), [POOL_LABELS.template]: poolTemplateHash(pool.spec) },
      // Which one leaves is for us to say: we know who is busy.
      annotations: { "cluster-autoscaler.kubernetes.io/safe-to-evict": "false", ...annotations },
      ownerReferences: [ownedBy(pool, ENVIRONMENT_POOLS)],
    },
    spec: podSpec(pool.spec),
  } as Draft<Pod>;
}

export function ownLabels(pool: string): Record<string, string> {
  return { [POOL_LABELS.managedBy]: "whetstone", [POOL_LABELS.pool]: pool };
}

function podSpec({ template, slotsPerWorker, drain }: PoolSpec): object {
  const { containers, ...others } = template.spec;
  const named = containers.findIndex(({ name }) => name === CONTAINER);
  const settings = {
    WHETSTONE_HOST: "0.0.0.0",
    WHETSTONE_GRPC_PORT: String(ENVIRONMENT_PORT),
    WHETSTONE_SLOTS: String(slotsPerWorker),
    WHETSTONE_DRAIN_MS: String(drain.deadlineSeconds * 1000),
  };
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    ...others,
    terminationGracePeriodSeconds: drain.deadlineSeconds + GRACE_SECONDS,
    containers: containers.map((container, i) => (i === Math.max(0, named) ? withEnv(container, settings) : container)),
  };
}

function withEnv(container: PoolContainer, settings: Readonly<Record<string, string>>): PoolContainer {
  const others = (container.env ?? []).filter(({ name }) => !(name in settings));
  return { ...container, env: [...others, ...Object.entries(settings).map(([name, value]) => ({ name, value }))] };
}

/** Undefined for a pod whose name is not one of ours. */
export function runnerFact(pod: Stored<Pod>, sessions: number): RunnerPod | undefined {
  const { name, uid, labels = {}, annotations = {}, creationTimestamp, deletionTimestamp } = pod.metadata;
  const ordinal = /-(\d+)$/.exec(name)?.[1];
  if (ordinal === undefined) return undefined;
  const { phase = "Pending", podIP: ip = "" } = pod.status ?? {};
  const since = annotations[DRAINING_SINCE];
  return {
    name,
    uid,
    ip,
    sessions,
    ordinal: Number(ordinal),
    template: labels[POOL_LABELS.template] ?? "",
    createdAt: Date.parse(creationTimestamp ?? "") || 0,
    ready: conditionOf(pod, "Ready")?.status === "True",
    ended: phase === "Failed" || phase === "Succeeded",
    terminating: deletionTimestamp !== undefined,
    drainingSince: since === undefined ? undefined : Date.parse(since) || 0,
    trouble: troubleOf(pod),
  };
}

function conditionOf(pod: Stored<Pod>, type: string) {
  return (pod.status?.conditions ?? []).find((condition) => condition.type === type);
}

/** Why it will not be ready by itself. Empty: it may yet, or is. */
function troubleOf(pod: Stored<Pod>): string {
  const { phase, reason, message, containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  if (phase === "Failed") return `${reason ?? "Failed"}: ${message ?? "its container ended"}`;
  const scheduled = conditionOf(pod, "PodScheduled");
  if (scheduled?.status === "False") return `${scheduled.reason ?? "Unschedulable"}: ${scheduled.message ?? ""}`;
  const waiting = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state?.waiting);
  const bad = waiting.find((one) => one?.reason !== undefined && !ORDINARY.has(one.reason));
  return bad ? `${bad.reason}: ${bad.message ?? ""}` : "";
}

const ORDINARY = new Set(["PodInitializing", "ContainerCreating"]);

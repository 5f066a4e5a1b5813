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
} from "./schema.ts";
import type { RunnerPod } from "./plan.ts";
import { SAFE_TO_EVICT } from "./evictions.ts";

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
  return `env-${pool}-${ordinal}`;
}

/** Names are by ordinal, so that a stale cache makes no pod twice. */
export function runnerPod(pool: StoredPool, ordinal: number): Draft<Pod> {
  const { name } = pool.metadata;
  const { labels, annotations } = pool.spec.template.metadata ?? {};
  return {
    metadata: {
      name: poolPodName(name, ordinal),
      labels: {
        ...labels,
        ...ownLabels(name),
        [POOL_LABELS.template]: poolTemplateHash(pool.spec),
        [POOL_LABELS.slots]: String(pool.spec.slotsPerWorker),
      },
      // Nothing is open there yet. Which of the busy ones leaves is for us to say.
      annotations: { [SAFE_TO_EVICT]: "true", ...annotations },
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
    containers: containers.map((container, i) =>
      i === Math.max(0, named) ? withEnv(container as PoolContainer, settings) : container,
    ),
  };
}

function withEnv(container: PoolContainer, settings: Readonly<Record<string, string>>): PoolContainer {
  const others = (container.env ?? []).filter(({ name }) => !(name in settings));
  return { ...container, env: [...others, ...Object.entries(settings).map(([name, value]) => ({ name, value }))] };
}

/** Undefined for a pod whose name is not one of ours. */
export function runnerFact(pod: Stored<Pod>, sessions: number): RunnerPod | undefined {
  const { name, uid, annotations = {}, creationTimestamp = "", deletionTimestamp } = pod.metadata;
  const ordinal = /-(\d+)$/.exec(name)?.[1];
  if (ordinal === undefined) return undefined;
  const since = annotations[DRAINING_SINCE];
  return {
    name,
    uid,
    sessions,
    ordinal: Number(ordinal),
    createdAt: Date.parse(creationTimestamp) || 0,
    terminating: deletionTimestamp !== undefined,
    drainingSince: since === undefined ? undefined : Date.parse(since) || 0,
    safeToEvict: annotations[SAFE_TO_EVICT] !== "false",
    ...labelFact(pod.metadata.labels ?? {}),
    ...statusFact(pod.status ?? {}),
  };
}

function labelFact(labels: Readonly<Record<string, string>>): Pick<RunnerPod, "template" | "slots"> {
  return { template: labels[POOL_LABELS.template] ?? "", slots: Number(labels[POOL_LABELS.slots] ?? 0) || 0 };
}

type Status = NonNullable<Pod["status"]>;

function statusFact(status: Status): Pick<RunnerPod, "ip" | "ready" | "ended" | "trouble"> {
  const { phase = "Pending", podIP: ip = "" } = status;
  const ended = phase === "Failed" || phase === "Succeeded";
  return { ip, ended, ready: conditionOf(status, "Ready")?.status === "True", trouble: troubleOf(status) };
}

function conditionOf({ conditions = [] }: Status, type: string) {
  return conditions.find((condition) => condition.type === type);
}

/** Why it will not be ready by itself. Empty: it may yet, or is. */
function troubleOf(status: Status): string {
  const { phase, reason = "Failed", message = "its container ended" } = status;
  if (phase === "Failed") return `${reason}: ${message}`;
  const scheduled = conditionOf(status, "PodScheduled");
  if (scheduled?.status === "False") return `${scheduled.reason ?? "Unschedulable"}: ${scheduled.message ?? ""}`;
  return waitingReason(status);
}

function waitingReason({ containerStatuses = [], initContainerStatuses = [] }: Status): string {
  const waiting = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state?.waiting);
  const bad = waiting.find((one) => one?.reason !== undefined && !ORDINARY.has(one.reason));
  return bad ? `${bad.reason}: ${bad.message ?? ""}` : "";
}

const ORDINARY = new Set(["PodInitializing", "ContainerCreating"]);

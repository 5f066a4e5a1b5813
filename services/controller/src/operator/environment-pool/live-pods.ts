// SPDX-License-Identifier: Apache-2.0
import { type Kube, type Pod, PODS, reflect, type Reflector, type Stored } from "@whetstone/kube";
import { DRAINING_SINCE, POOL_LABELS } from "./schema.ts";
import { SAFE_TO_EVICT } from "./evictions.ts";

/** What we did is believed for so long before the watch shows it. */
const BELIEVED_MS = 30_000;

interface Change {
  readonly pod: Stored<Pod>;
  /** Version that the watch showed when it was made. */
  readonly over: string | undefined;
  readonly atMs: number;
}

/** Pods of all pools: what the watch shows, and what we did since. Else a cache that lags would have things done twice. */
export class PoolPods implements Disposable {
  readonly #reflector: Reflector<Pod>;
  readonly #changes = new Map<string, Change>();

  constructor(kube: Kube, signal: AbortSignal, onChange: (pool: string) => void) {
    this.#reflector = reflect(kube, PODS, {
      signal,
      labels: POOL_LABELS.pool,
      indexBy: poolOfPod,
      trim: onlyFacts,
      onChange: (_, pod) => {
        onChange(poolOfPod(pod) ?? "");
      },
    });
  }

  get synced(): Promise<void> {
    return this.#reflector.synced;
  }

  of(pool: string, nowMs: number): Stored<Pod>[] {
    const seen = this.#reflector.by(pool).map((pod) => this.#believed(pod, nowMs) ?? pod);
    for (const [name, { pod, over }] of this.#changes)
      if (over === undefined && poolOfPod(pod) === pool && this.#reflector.get(name) === undefined) seen.push(pod);
    return seen;
  }

  note(pod: Stored<Pod>, nowMs: number): void {
    const { name } = pod.metadata;
    const over = this.#reflector.get(name)?.metadata.resourceVersion;
    this.#changes.set(name, { pod: onlyFacts(pod), over, atMs: nowMs });
  }

  [Symbol.dispose](): void {
    this.#reflector[Symbol.dispose]();
  }

  #believed(seen: Stored<Pod>, nowMs: number): Stored<Pod> | undefined {
    const { name, resourceVersion } = seen.metadata;
    const change = this.#changes.get(name);
    if (change === undefined) return undefined;
    if (change.over === resourceVersion && nowMs - change.atMs < BELIEVED_MS) return change.pod;
    this.#changes.delete(name);
    return undefined;
  }

  /** Made, and gone before the watch ever showed it. */
  forgetOld(nowMs: number): void {
    for (const [name, { atMs }] of this.#changes) if (nowMs - atMs >= BELIEVED_MS) this.#changes.delete(name);
  }
}

function poolOfPod(pod: Stored<Pod>): string | undefined {
  return pod.metadata.labels?.[POOL_LABELS.pool];
}

/** Thousands of them are in memory: what nobody reads is dropped. */
function onlyFacts(pod: Stored<Pod>): Stored<Pod> {
  const { phase, podIP, reason, message, conditions = [] } = pod.status ?? {};
  const { containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  const waiting = [...initContainerStatuses, ...containerStatuses].filter(({ state }) => state?.waiting !== undefined);
  const kept = conditions.filter(
    ({ type, status }) => type === "Ready" || (type === "PodScheduled" && status === "False"),
  );
  const status = { phase, podIP, reason, message, conditions: kept, containerStatuses: waiting };
  return { metadata: readMetadata(pod), status } as Stored<Pod>;
}

function readMetadata({ metadata }: Stored<Pod>): Stored<Pod>["metadata"] {
  const { name, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels = {}, annotations = {} } = metadata;
  const { pool, template, slots } = POOL_LABELS;
  return {
    ...{ name, uid, resourceVersion, creationTimestamp },
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    labels: pick(labels, [pool, template, slots]),
    annotations: {
      ...pick(annotations, [DRAINING_SINCE]),
      ...(annotations[SAFE_TO_EVICT] === "false" && { [SAFE_TO_EVICT]: "false" }),
    },
  } as Stored<Pod>["metadata"];
}

function pick(from: Readonly<Record<string, string>>, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(keys.flatMap((key) => (from[key] === undefined ? [] : [[key, from[key]]])));
}

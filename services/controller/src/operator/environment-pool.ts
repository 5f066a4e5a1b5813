// SPDX-License-Identifier: Apache-2.0
/** Reconciles EnvironmentPool: its pods, what orchestrators know of them, its size, its status. The decisions are in domain/. */
import { Gate, WhetstoneError } from "@whetstone/core";
import {
  type Again,
  DISRUPTION_BUDGETS,
  type Kube,
  ownedBy,
  PODS,
  type Reconciler,
  recordEvent,
  reflect,
  type Reflector,
  runReconciler,
} from "@whetstone/kube";
import { PoolLoads } from "../adapters/pool-loads.ts";
import { PoolRecords } from "../adapters/pool-records.ts";
import { RunnerDrains } from "../adapters/runner-drains.ts";
import {
  DRAINING_SINCE,
  ENVIRONMENT_POOLS,
  ENVIRONMENT_PORT,
  type EnvironmentPool,
  POOL_LABELS,
  type StoredPool,
} from "../domain/environment-pool.ts";
import { planPool, type PoolFacts, type PoolPlan, type RunnerPod } from "../domain/environment-pool-plan.ts";
import { ownLabels, poolPodName, poolTemplateHash, runnerFact, runnerPod } from "../domain/environment-pool-pods.ts";
import { poolStatus } from "../domain/environment-pool-status.ts";
import type { OperatorParts } from "./operator.ts";
import { PoolNeeds } from "./pool-needs.ts";
import { PoolPods } from "./pool-pods.ts";
import { shortPass } from "./short-pass.ts";
import { isSameStatus, mayWrite } from "./status-writes.ts";

/** How often a pool is looked at without news. */
const LOOK_MS = { draining: 1_000, calm: 5_000 } as const;
/** News of pods come in bursts; one look answers many. */
const GATHER_MS = 200;
/** Changes of pods at once, of all pools: more only wait in the API server, and others behind them. */
const CHANGED_AT_ONCE = 8;
/** Of one pool, so that several do not wait for each other. */
const CREATED_AT_ONCE = 4;
/** Then it looks again before it goes on: pools take turns, and what is known of a pool is never old. */
const CREATING_MS = 250;
const UNAVAILABLE_SHARE = "10%";

export async function startEnvironmentPools(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const pools = new Pools(parts, signal, await PoolRecords.open(parts.nats, parts.lead));
  await pools.start();
  return pools;
}

/** What is kept of a pool between two looks. All of it can be lost. */
class Memory {
  /** Draining pods that said that nothing is open there, by uid. */
  readonly empty = new Set<string>();
  /** Ordinals of pods that are somebody else's. */
  readonly taken = new Set<number>();
  refused = "";
  budgetOf = "";
  wroteAt = 0;
}

class Pools implements AsyncDisposable {
  readonly #parts: OperatorParts;
  readonly #kube: Kube;
  readonly #signal: AbortSignal;
  readonly #records: PoolRecords;
  readonly #drains: RunnerDrains;
  readonly #loads: PoolLoads;
  readonly #needs: PoolNeeds;
  readonly #pools: Reflector<EnvironmentPool>;
  readonly #pods: PoolPods;
  readonly #reconciler: Reconciler;
  readonly #memories = new Map<string, Memory>();
  readonly #gate = new Gate(CHANGED_AT_ONCE, { maxQueued: Number.POSITIVE_INFINITY });

  constructor(parts: OperatorParts, signal: AbortSignal, records: PoolRecords) {
    const { kube, nats, logger, metrics, tls } = parts;
    this.#parts = parts;
    this.#kube = kube;
    this.#signal = signal;
    this.#records = records;
    this.#drains = new RunnerDrains(tls, logger);
    this.#loads = new PoolLoads(nats, logger);
    this.#reconciler = runReconciler({
      name: "environment-pool",
      reconcile: (key, each) => this.#reconcile(key, each),
      ...{ logger, metrics, signal },
    });
    this.#pools = reflect(kube, ENVIRONMENT_POOLS, { signal, onChange: (key) => this.#reconciler.enqueue(key) });
    this.#pods = new PoolPods(kube, signal, (pool) => this.#reconciler.enqueueAfter(pool, GATHER_MS));
    this.#needs = new PoolNeeds(parts, signal, {
      pools: () => this.#pools.all().map(({ metadata }) => metadata.name),
      onChange: (pool) => this.#reconciler.enqueue(pool),
    });
  }

  /** Nothing is decided before both caches are whole: a pod that is not seen yet would be made again. */
  async start(): Promise<void> {
    await this.#synced().catch((error: unknown) => {
      if (!this.#signal.aborted) throw error;
    });
    if (this.#signal.aborted) return;
    await this.#records.keepOnly(new Set(this.#pools.all().map(({ metadata }) => metadata.name)));
    this.#needs.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#needs[Symbol.dispose]();
    this.#loads[Symbol.dispose]();
    this.#pools[Symbol.dispose]();
    this.#pods[Symbol.dispose]();
    await this.#reconciler.close();
  }

  async #synced(): Promise<void> {
    await Promise.all([this.#pools.synced, this.#pods.synced]);
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<Again | void> {
    if (name === "") return;
    await this.#synced();
    const pool = this.#pools.get(name);
    if (!pool || pool.metadata.deletionTimestamp !== undefined) return this.#forget(name);
    const memory = this.#memoryOf(name);
    const wanted = await this.#scaled(pool, signal);
    const facts = this.#facts(pool, memory);
    const wish = {
      replicas: wanted,
      template: poolTemplateHash(pool.spec),
      drainMs: pool.spec.drain.deadlineSeconds * 1000,
    };
    const plan = planPool(wish, facts);
    await this.#protect(pool, memory, signal);
    await this.#markDrains(plan, signal);
    await this.#records.write(name, { runners: runnersOf(plan), wantedRunners: wanted }, facts.now);
    await this.#followDrains(plan, memory, wish.drainMs, signal);
    await this.#remove(pool, plan, signal);
    const isAllMade = await this.#create(pool, plan, memory, signal);
    await this.#writeStatus(pool, { plan, memory, wanted, template: wish.template });
    this.#pods.forgetOld(facts.now);
    if (!isAllMade) return { requeueAfterMs: GATHER_MS };
    return { requeueAfterMs: plan.draining.length > 0 ? LOOK_MS.draining : LOOK_MS.calm };
  }

  /** What the pool that scales by itself needs now; else what was wished. */
  async #scaled(pool: StoredPool, signal: AbortSignal): Promise<number> {
    const { spec, metadata } = pool;
    const wanted = this.#needs.replicas(pool, Date.now());
    if (wanted === spec.replicas) return wanted;
    await this.#kube.patch(
      ENVIRONMENT_POOLS,
      metadata.name,
      { spec: { replicas: wanted } },
      { subresource: "scale", signal },
    );
    this.#tell(
      pool,
      "Scaled",
      `${spec.replicas} to ${wanted} env-runners for ${this.#needs.slots(metadata.name)} wanted slots`,
    );
    return wanted;
  }

  #facts({ metadata: { name } }: StoredPool, memory: Memory): PoolFacts {
    const now = Date.now();
    const sessions = this.#loads.sessions(name, now);
    const pods = this.#pods.of(name, now).flatMap((pod) => runnerFact(pod, sessions.get(pod.metadata.uid) ?? 0) ?? []);
    const uids = new Set(pods.map(({ uid }) => uid));
    for (const uid of memory.empty) if (!uids.has(uid)) memory.empty.delete(uid);
    return { pods, empty: memory.empty, taken: memory.taken, now };
  }

  /** Of voluntary disruptions, a few at a time: those that are evicted drain by themselves. */
  async #protect(pool: StoredPool, memory: Memory, signal: AbortSignal): Promise<void> {
    const { name, uid } = pool.metadata;
    if (memory.budgetOf === uid) return;
    const spec = {
      maxUnavailable: UNAVAILABLE_SHARE,
      unhealthyPodEvictionPolicy: "AlwaysAllow",
      selector: { matchLabels: { [POOL_LABELS.pool]: name } },
    };
    const metadata = {
      name: `pool-${name}`,
      labels: ownLabels(name),
      ownerReferences: [ownedBy(pool, ENVIRONMENT_POOLS)],
    };
    await this.#kube.apply(DISRUPTION_BUDGETS, { metadata, spec: spec }, { signal });
    memory.budgetOf = uid;
  }

  /** Written down before anybody acts on it, so that a successor goes on where we were. */
  async #markDrains({ drain, undrain }: PoolPlan, signal: AbortSignal): Promise<void> {
    const since = new Date().toISOString();
    await Promise.all([
      ...drain.map((pod) => this.#annotate(pod, since, signal)),
      ...undrain.map(async (pod) => {
        await this.#drains.undo(addressOf(pod), signal);
        await this.#annotate(pod, null, signal);
      }),
    ]);
  }

  async #annotate({ name, uid }: RunnerPod, since: string | null, signal: AbortSignal): Promise<void> {
    const patch = { metadata: { uid, annotations: { [DRAINING_SINCE]: since } } };
    try {
      const pod = await this.#gate.run(() => this.#kube.patch(PODS, name, patch, { signal }), signal);
      this.#pods.note(pod, Date.now());
    } catch (error) {
      const { code } = WhetstoneError.from(error);
      if (code !== "NOT_FOUND" && code !== "CONFLICT") throw error; // It is gone, or another one of its name has come.
    }
  }

  async #followDrains({ draining }: PoolPlan, { empty }: Memory, drainMs: number, signal: AbortSignal): Promise<void> {
    const asked = draining.filter(({ terminating, ip, uid }) => !terminating && ip !== "" && !empty.has(uid));
    await Promise.all(
      asked.map(async (pod) => {
        const leftMs = (pod.drainingSince ?? Date.now()) + drainMs - Date.now();
        const open = await this.#drains.drain(addressOf(pod), leftMs, signal);
        const isDead = open === undefined && !pod.ready && pod.sessions === 0;
        if (open === 0 || isDead) empty.add(pod.uid);
      }),
    );
    if (asked.some(({ uid }) => empty.has(uid))) this.#soon();
  }

  #soon(): void {
    for (const { metadata } of this.#pools.all()) this.#reconciler.enqueueAfter(metadata.name, GATHER_MS);
  }

  async #remove(pool: StoredPool, { remove }: PoolPlan, signal: AbortSignal): Promise<void> {
    await Promise.all(
      remove.map(({ name, uid, ended, trouble }) =>
        this.#gate.run(async () => {
          await this.#kube.delete(PODS, name, { uid, signal }).catch(unlessOther);
          if (ended) this.#tell(pool, "PodReplaced", `${name}: ${trouble || "its container ended"}`);
        }, signal),
      ),
    );
  }

  /** @returns false: there was no time for all of them */
  async #create(pool: StoredPool, { create }: PoolPlan, memory: Memory, signal: AbortSignal): Promise<boolean> {
    memory.refused = "";
    if (memory.taken.size > 0) await this.#lookAtTaken(pool.metadata.name, memory, signal);
    const left = await shortPass(create, { atOnce: CREATED_AT_ONCE, ms: CREATING_MS }, (ordinal) =>
      this.#gate.run(() => this.#createOne(pool, ordinal, memory, signal)),
    );
    if (memory.refused !== "") this.#tell(pool, "PodRefused", memory.refused);
    return left === 0;
  }

  async #createOne(pool: StoredPool, ordinal: number, memory: Memory, signal: AbortSignal): Promise<void> {
    if (memory.refused !== "") return;
    try {
      const pod = await this.#kube.create(PODS, runnerPod(pool, ordinal), { signal });
      this.#pods.note(pod, Date.now());
    } catch (error) {
      const { code, message } = WhetstoneError.from(error);
      if (code === "ALREADY_EXISTS") await this.#adopt(pool, ordinal, memory, signal);
      else if (code === "INVALID_ARGUMENT" || code === "PERMISSION_DENIED") memory.refused = message;
      else throw error;
    }
  }

  /** Ours, which the cache does not show yet; or somebody else's. */
  async #adopt(pool: StoredPool, ordinal: number, memory: Memory, signal: AbortSignal): Promise<void> {
    const pod = await this.#kube.get(PODS, poolPodName(pool.metadata.name, ordinal), { signal });
    if (!pod) return;
    if (pod.metadata.ownerReferences?.some(({ uid }) => uid === pool.metadata.uid)) this.#pods.note(pod, Date.now());
    else memory.taken.add(ordinal);
  }

  async #lookAtTaken(pool: string, { taken }: Memory, signal: AbortSignal): Promise<void> {
    for (const ordinal of taken)
      if (!(await this.#kube.get(PODS, poolPodName(pool, ordinal), { signal }))) taken.delete(ordinal);
  }

  async #writeStatus(
    pool: StoredPool,
    look: { readonly plan: PoolPlan; readonly memory: Memory; readonly wanted: number; readonly template: string },
  ): Promise<void> {
    const { name } = pool.metadata;
    const { plan, memory, template } = look;
    const now = Date.now();
    const taken = [...memory.taken].map((ordinal) => poolPodName(name, ordinal));
    const wantedSlots = this.#needs.slots(name);
    const wished = { ...pool, spec: { ...pool.spec, replicas: look.wanted } };
    const status = poolStatus(wished, plan, { wantedSlots, taken, refused: memory.refused, template, now });
    this.#needs.show(name, { ready: status.ready ?? 0, busy: status.busySlots ?? 0 });
    if (isSameStatus(pool.status, status) || !mayWrite(pool.status, status, now - memory.wroteAt)) return;
    memory.wroteAt = now;
    await this.#kube.applyStatus(ENVIRONMENT_POOLS, { metadata: { name }, status }).catch(unlessOther);
  }

  /** The garbage collector deletes the pods of a pool that is gone; they hand back what they have. */
  async #forget(name: string): Promise<void> {
    this.#memories.delete(name);
    this.#needs.forget(name);
    await this.#records.remove(name);
  }

  #memoryOf(name: string): Memory {
    const known = this.#memories.get(name) ?? new Memory();
    this.#memories.set(name, known);
    return known;
  }

  #tell(pool: StoredPool, reason: string, message: string): void {
    recordEvent(this.#kube, pool, { of: ENVIRONMENT_POOLS, reason, message });
  }
}

function runnersOf({ present, draining }: PoolPlan) {
  const line = (pod: RunnerPod, isDraining: boolean) => ({
    id: pod.uid,
    address: addressOf(pod),
    slots: pod.slots,
    draining: isDraining,
  });
  return [
    ...present.filter(({ ready, ip }) => ready && ip !== "").map((pod) => line(pod, false)),
    ...draining.filter(({ ip }) => ip !== "").map((pod) => line(pod, true)),
  ].sort((a, b) => (a.id < b.id ? -1 : 1));
}

function addressOf({ ip }: RunnerPod): string {
  return ip.includes(":") ? `[${ip}]:${ENVIRONMENT_PORT}` : `${ip}:${ENVIRONMENT_PORT}`;
}

/** Gone already, or another one of its name has come. */
function unlessOther(error: unknown): undefined {
  const { code } = WhetstoneError.from(error);
  if (code === "NOT_FOUND" || code === "CONFLICT") return undefined;
  throw error;
}

// SPDX-License-Identifier: Apache-2.0
/** Reconciles EnvironmentPool: its pods, what orchestrators know of them, its size, its status. The decisions are in plan.ts. */
import { PoolLoads } from "./loads.ts";
import { PoolRecords } from "./records.ts";
import { RunnerDrains } from "./runner-drains.ts";
import { ENVIRONMENT_POOLS, type EnvironmentPool, type PoolStatus, runnerAddress, type StoredPool } from "./schema.ts";
import { planPool, type PoolFacts, type PoolPlan, type RunnerPod } from "./plan.ts";
import { poolPodName, poolTemplateHash, runnerFact } from "./pods.ts";
import { poolStatus } from "./status.ts";
import { evictionMarks, SAFE_TO_EVICT } from "./evictions.ts";
import type { OperatorParts } from "../parts.ts";
import { PodWrites } from "./pod-writes.ts";
import { protectPool } from "./budget.ts";
import { PoolDrains } from "./drains.ts";
import { PoolMembers } from "./members.ts";
import { PoolMemory } from "./memory.ts";
import { PoolNeeds } from "./needs.ts";
import { PoolPods } from "./live-pods.ts";
import { type Look, ObjectReconciler } from "../object-reconciler.ts";

/** How often a pool is looked at without a change. */
const LOOK_MS = { draining: 1_000, calm: 5_000 } as const;
/** Changes of pods come in bursts; one look answers many. */
const GATHER_MS = 200;

export async function startEnvironmentPools(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const pools = new Pools(parts, signal, await PoolRecords.open(parts.nats, parts.lead));
  await pools.start();
  return pools;
}

class Pools extends ObjectReconciler<EnvironmentPool> {
  readonly #records: PoolRecords;
  readonly #writes: PodWrites;
  readonly #drains: PoolDrains;
  readonly #members: PoolMembers;
  readonly #loads: PoolLoads;
  readonly #needs: PoolNeeds;
  readonly #pods: PoolPods;
  readonly #memories = new Map<string, PoolMemory>();

  constructor(parts: OperatorParts, signal: AbortSignal, records: PoolRecords) {
    super(parts, signal, { name: "environment-pool", type: ENVIRONMENT_POOLS });
    const { kube, nats, logger, tls } = parts;
    this.#records = records;
    this.#pods = this.keep(new PoolPods(kube, signal, (pool) => this.enqueueAfter(pool, GATHER_MS)));
    this.#loads = this.resources.use(new PoolLoads(nats, logger));
    this.#writes = new PodWrites(kube, this.#pods);
    this.#drains = new PoolDrains(this.#writes, new RunnerDrains(tls, logger));
    this.#members = new PoolMembers(this.#writes, (...change) => this.tell(...change));
    this.#needs = this.resources.use(
      new PoolNeeds(parts, signal, { pools: () => this.names(), onChange: (pool) => this.enqueue(pool) }),
    );
  }

  override async start(): Promise<void> {
    await super.start();
    if (this.signal.aborted) return;
    await this.#records.keepOnly(new Set(this.names()));
    this.#needs.start();
  }

  protected async look(pool: StoredPool, signal: AbortSignal): Promise<Look<EnvironmentPool>> {
    const { name, uid } = pool.metadata;
    const memory = this.#memoryOf(name);
    const wanted = await this.#scaled(pool, signal);
    const facts = this.#facts(pool, memory);
    const desired = {
      replicas: wanted,
      template: poolTemplateHash(pool.spec),
      drainMs: pool.spec.drain.deadlineSeconds * 1000,
    };
    const plan = planPool(desired, facts);
    if (memory.budgetOf !== uid) await protectPool(this.parts.kube, pool, signal);
    memory.budgetOf = uid;
    await this.#drains.mark(plan, signal);
    await this.#records.write(name, { runners: runnersOf(plan), wantedRunners: wanted }, facts.now);
    if (await this.#drains.follow(plan, memory, desired.drainMs, signal)) this.#soon();
    await this.#members.remove(pool, plan, signal);
    const isAllMade = await this.#members.create(pool, plan, memory, signal);
    await this.#markEvictions(pool, plan, memory, signal);
    const status = this.#status(pool, { plan, memory, wanted, template: desired.template });
    this.#pods.forgetOld(facts.now);
    if (!isAllMade) return { status, requeueAfterMs: GATHER_MS };
    return { status, requeueAfterMs: plan.draining.length > 0 ? LOOK_MS.draining : LOOK_MS.calm };
  }

  /** Its pods hand back what they have. */
  protected async forget(name: string): Promise<void> {
    this.#memories.delete(name);
    this.#needs.forget(name);
    await this.#records.remove(name);
  }

  /** What the pool that scales by itself needs now; else what was desired. */
  async #scaled(pool: StoredPool, signal: AbortSignal): Promise<number> {
    const { spec, metadata } = pool;
    const wanted = this.#needs.replicas(pool, Date.now());
    if (wanted === spec.replicas) return wanted;
    await this.parts.kube.patch(
      ENVIRONMENT_POOLS,
      metadata.name,
      { spec: { replicas: wanted } },
      { subresource: "scale", signal },
    );
    this.tell(
      pool,
      "Scaled",
      `${spec.replicas} to ${wanted} env-runners for ${this.#needs.slots(metadata.name)} wanted slots`,
    );
    return wanted;
  }

  #facts({ metadata: { name } }: StoredPool, memory: PoolMemory): PoolFacts {
    const now = Date.now();
    const sessions = this.#loads.sessions(name, now);
    const pods = this.#pods.of(name, now).flatMap((pod) => runnerFact(pod, sessions.get(pod.metadata.uid) ?? 0) ?? []);
    const uids = new Set(pods.map(({ uid }) => uid));
    for (const uid of memory.empty) if (!uids.has(uid)) memory.empty.delete(uid);
    return { pods, empty: memory.empty, taken: memory.taken, now };
  }

  /** Cluster autoscalers may take a node away whose env-runners are idle. What the pool's template says itself stands. */
  async #markEvictions(pool: StoredPool, plan: PoolPlan, memory: PoolMemory, signal: AbortSignal): Promise<void> {
    if (pool.spec.template.metadata?.annotations?.[SAFE_TO_EVICT] !== undefined) return;
    const marks = evictionMarks(plan.present, { idleSince: memory.idleSince, now: Date.now() });
    await Promise.all(
      marks.map(({ pod, safe }) => this.#writes.annotate(pod, { [SAFE_TO_EVICT]: String(safe) }, signal)),
    );
  }

  #soon(): void {
    for (const name of this.names()) this.enqueueAfter(name, GATHER_MS);
  }

  #status(
    pool: StoredPool,
    look: { readonly plan: PoolPlan; readonly memory: PoolMemory; readonly wanted: number; readonly template: string },
  ): PoolStatus {
    const { name } = pool.metadata;
    const { plan, memory, template } = look;
    const taken = [...memory.taken].map((ordinal) => poolPodName(name, ordinal));
    const wantedSlots = this.#needs.slots(name);
    const desired = { ...pool, spec: { ...pool.spec, replicas: look.wanted } };
    const facts = { wantedSlots, taken, refused: memory.refused, template, now: Date.now() };
    const status = poolStatus(desired, plan, facts);
    this.#needs.show(name, { ready: status.ready ?? 0, busy: status.busySlots ?? 0 });
    return status;
  }

  #memoryOf(name: string): PoolMemory {
    const known = this.#memories.get(name) ?? new PoolMemory();
    this.#memories.set(name, known);
    return known;
  }
}

function runnersOf({ present, draining }: PoolPlan) {
  const line = (pod: RunnerPod, isDraining: boolean) => ({
    id: pod.uid,
    address: runnerAddress(pod),
    slots: pod.slots,
    draining: isDraining,
  });
  return [
    ...present.filter(({ ready, ip }) => ready && ip !== "").map((pod) => line(pod, false)),
    ...draining.filter(({ ip }) => ip !== "").map((pod) => line(pod, true)),
  ].sort((a, b) => (a.id < b.id ? -1 : 1));
}

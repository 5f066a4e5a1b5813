// SPDX-License-Identifier: Apache-2.0
import { unsealedTasks } from "./unsealed-tasks.ts";
import { jobState } from "@whetstone/messaging/jobs";
import { type StoredPool, WANTED_UNTIL } from "./schema.ts";
import { type Need, scalePool } from "./scaler.ts";
import type { OperatorParts } from "../parts.ts";

const LOOK_MS = 2_000;

export interface NeedsOptions {
  /** Names of all pools. */
  readonly pools: () => readonly string[];
  /** The need of a pool has changed. */
  readonly onChange: (pool: string) => void;
}

/** What jobs need of each pool, whether or not anything of it runs. */
export class PoolNeeds implements Disposable {
  readonly #parts: OperatorParts;
  readonly #signal: AbortSignal;
  readonly #options: NeedsOptions;
  readonly #histories = new Map<string, readonly Need[]>();
  readonly #sinceMs = Date.now();
  readonly #gauges: Record<"wanted" | "ready" | "busy", (pool: string, value: number) => void>;
  readonly #drop: (pool: string) => void;
  #slots = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(parts: OperatorParts, signal: AbortSignal, options: NeedsOptions) {
    this.#parts = parts;
    this.#signal = signal;
    this.#options = options;
    const gauge = (name: string, help: string) => parts.metrics.gauge(name, help, ["pool"]);
    const wanted = gauge("pool_wanted_slots", "Episodes of running jobs that are dispatched and not sealed.");
    const ready = gauge("pool_ready_runners", "Env-runners that take sessions.");
    const busy = gauge("pool_busy_slots", "Sessions open in environments.");
    this.#gauges = {
      wanted: (pool, value) => wanted.set({ pool }, value),
      ready: (pool, value) => ready.set({ pool }, value),
      busy: (pool, value) => busy.set({ pool }, value),
    };
    this.#drop = (pool) => {
      for (const one of [wanted, ready, busy]) one.remove({ pool });
    };
  }

  start(): void {
    this.#timer = setInterval(() => void this.#look(), LOOK_MS).unref();
  }

  slots(pool: string): number {
    return this.#slots.get(pool) ?? 0;
  }

  /** Env-runners that the pool is to have. */
  replicas(pool: StoredPool, nowMs: number): number {
    const { autoscaling, slotsPerWorker, replicas } = pool.spec;
    const { name } = pool.metadata;
    if (!autoscaling.enabled) {
      this.#histories.delete(name);
      return replicas;
    }
    const wantedSlots = Math.max(this.slots(name), isWanted(pool, nowMs) ? 1 : 0);
    const history = this.#histories.get(name) ?? [];
    const facts = { wantedSlots, slotsPerWorker, replicas, history, nowMs, sinceMs: this.#sinceMs };
    const scaled = scalePool(autoscaling, facts);
    this.#histories.set(name, scaled.history);
    return scaled.replicas;
  }

  show(pool: string, { ready, busy }: { readonly ready: number; readonly busy: number }): void {
    this.#gauges.ready(pool, ready);
    this.#gauges.busy(pool, busy);
  }

  forget(pool: string): void {
    this.#histories.delete(pool);
    this.#drop(pool);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#looking || this.#signal.aborted) return;
    this.#looking = true;
    try {
      const former = this.#slots;
      const jobs = (await this.#parts.jobs.all()).filter((job) => jobState(job).kind !== "ended");
      this.#slots = await unsealedTasks(this.#parts.nats, jobs);
      for (const pool of this.#options.pools()) {
        this.#gauges.wanted(pool, this.slots(pool));
        if (this.slots(pool) !== (former.get(pool) ?? 0)) this.#options.onChange(pool);
      }
    } catch (error) {
      if (!this.#signal.aborted) this.#parts.logger.warn("pool_needs_unknown", { error });
    } finally {
      this.#looking = false;
    }
  }
}

/** Somebody waits for an env-runner though nothing is dispatched. */
function isWanted({ metadata }: StoredPool, nowMs: number): boolean {
  const until = metadata.annotations?.[WANTED_UNTIL];
  return until !== undefined && nowMs < Date.parse(until);
}

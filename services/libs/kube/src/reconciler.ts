// SPDX-License-Identifier: Apache-2.0
import { Deadline, isAbort, raceSignal, WhetstoneError } from "@whetstone/core";
import type { Logger, Metrics } from "@whetstone/telemetry";
import { type RetryLimitOptions, RetryLimits } from "./retry-limits.ts";
import { type Priority, WorkQueue } from "./work-queue.ts";

const TIMEOUT_MS = 120_000;
/** Failures before a key's trouble is worth a warning; conflicts with a stale cache heal by themselves. */
const QUIET_FAILURES = 2;

export interface Again {
  /** Come back after this time even if nothing happens. */
  readonly requeueAfterMs?: number | undefined;
}

export interface ReconcilerOptions {
  /** For logs and metrics: `training-job`. */
  readonly name: string;
  /**
   * Makes the world as the object of this key wants it, whatever it is now; the same path for created, changed and deleted.
   * A throw brings the key back with back-off.
   */
  readonly reconcile: (key: string, signal: AbortSignal) => Promise<Again | void>;
  /** Keys worked on at once; never the same key twice. Default 4. */
  readonly concurrency?: number;
  /** Of one reconcile. Default 120,000. */
  readonly timeoutMs?: number;
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
  /** Ends the work, as `close` does. */
  readonly signal?: AbortSignal | undefined;
  readonly retry?: RetryLimitOptions;
}

export interface Reconciler {
  enqueue(key: string, priority?: Priority): void;
  enqueueAfter(key: string, ms: number): void;
  readonly depth: number;
  /** Aborts what runs and waits for its end. */
  close(): Promise<void>;
}

export function runReconciler(options: ReconcilerOptions): Reconciler {
  const loop = new Loop(options);
  loop.start();
  return loop;
}

class Loop implements Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #queue = new WorkQueue();
  readonly #limits: RetryLimits;
  readonly #logger: Logger;
  readonly #stop = new AbortController();
  readonly #observe: Observer;
  #workers: Promise<void>[] = [];

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#limits = new RetryLimits(options.retry);
    this.#logger = options.logger.child({ reconciler: options.name });
    this.#observe = observer(options.name, options.metrics);
  }

  get depth(): number {
    return this.#queue.depth;
  }

  enqueue(key: string, priority?: Priority): void {
    this.#queue.add(key, priority);
    this.#observe.depth(this.#queue.depth);
  }

  enqueueAfter(key: string, ms: number): void {
    this.#queue.addAfter(key, ms);
  }

  start(): void {
    const { signal, concurrency = 4 } = this.#options;
    if (signal?.aborted) this.#halt();
    signal?.addEventListener("abort", () => this.#halt(), { once: true, signal: this.#stop.signal });
    this.#workers = Array.from({ length: concurrency }, () => this.#work());
  }

  async close(): Promise<void> {
    this.#halt();
    await Promise.all(this.#workers);
  }

  #halt(): void {
    this.#stop.abort();
    this.#queue.close();
  }

  async #work(): Promise<void> {
    for (let key = await this.#queue.take(); key !== undefined; key = await this.#queue.take()) {
      this.#observe.depth(this.#queue.depth);
      await this.#one(key);
      this.#queue.done(key);
    }
  }

  async #one(key: string): Promise<void> {
    const startedAt = performance.now();
    try {
      const again = await this.#attempt(key);
      this.#limits.succeeded(key);
      if (again?.requeueAfterMs !== undefined) this.#queue.addAfter(key, again.requeueAfterMs);
      this.#observe.ran("done", performance.now() - startedAt);
    } catch (error) {
      this.#failed(key, error);
      this.#observe.ran("failed", performance.now() - startedAt);
    }
  }

  /** Ends by the deadline even if the work does not listen: a worker that waits for ever would take its key with it. */
  async #attempt(key: string): Promise<Again | void> {
    using deadline = Deadline.after(this.#options.timeoutMs ?? TIMEOUT_MS, this.#stop.signal);
    const { signal } = deadline;
    return await raceSignal((async () => this.#options.reconcile(key, signal))(), signal);
  }

  #failed(key: string, error: unknown): void {
    if (this.#stop.signal.aborted) return;
    const waitMs = this.#limits.failed(key);
    this.#queue.addAfter(key, waitMs);
    const { code } = WhetstoneError.from(error);
    const failures = this.#limits.failures(key);
    const isQuiet = failures <= QUIET_FAILURES && (code === "CONFLICT" || code === "ALREADY_EXISTS" || isAbort(error));
    this.#logger[isQuiet ? "debug" : "warn"]("reconcile_failed", { key, failures, waitMs: Math.round(waitMs), error });
  }
}

interface Observer {
  ran(result: "done" | "failed", ms: number): void;
  depth(keys: number): void;
}

function observer(name: string, metrics: Metrics | undefined): Observer {
  if (!metrics) return { ran: () => {}, depth: () => {} };
  const seconds = metrics.histogram(
    "reconcile_seconds",
    "Duration of one reconcile",
    ["reconciler", "result"],
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120],
  );
  const depth = metrics.gauge("reconcile_queue_depth", "Keys that wait", ["reconciler"]);
  return {
    ran: (result, ms) => seconds.observe({ reconciler: name, result }, ms / 1000),
    depth: (keys) => depth.set({ reconciler: name }, keys),
  };
}

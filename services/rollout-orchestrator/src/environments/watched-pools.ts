// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Nats, openKv, poolLoadSubject, POOLS_BUCKET } from "@whetstone/messaging";
import { type PoolLoad, PoolLoadSchema, PoolRecordSchema } from "@whetstone/proto/events/v1/events";
import type { Logger } from "@whetstone/telemetry";
import type { Pool, Pools } from "./pools.ts";
import { WatchedPool } from "./watched-pool.ts";

const TELL_MS = 1_000;
/** Without a change. Others forget what they have not heard of for longer. */
const TELL_AGAIN_MS = 3_000;

/** Pools as the controller writes them into KV, and as other orchestrators use them. */
export class WatchedPools implements Pools, Disposable {
  readonly #pools = new Map<string, WatchedPool>();
  readonly #nats: Nats;
  readonly #logger: Logger;
  readonly #stop = new AbortController();
  readonly #name = randomUUID();
  readonly #timer: NodeJS.Timeout;

  constructor(nats: Nats, logger: Logger) {
    this.#nats = nats;
    this.#logger = logger;
    void this.#watch().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) logger.error("pool_watch_failed", { error });
    });
    void this.#listen();
    this.#timer = setInterval(() => {
      this.#tell();
    }, TELL_MS).unref();
  }

  of(name: string): Pool {
    return this.#open(name);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }

  #open(name: string): WatchedPool {
    const known = this.#pools.get(name);
    if (known !== undefined) return known;
    const pool = new WatchedPool();
    this.#pools.set(name, pool);
    return pool;
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stop;
    const records = await openKv(this.#nats, POOLS_BUCKET, PoolRecordSchema, { signal, logger: this.#logger });
    for await (const change of records.watch("", signal))
      this.#open(change.key).update(change.kind === "put" ? change.value : undefined);
  }

  async #listen(): Promise<void> {
    const subscription = this.#nats.subscribe(poolLoadSubject());
    this.#stop.signal.addEventListener("abort", () => {
      subscription.unsubscribe();
    });
    for await (const message of subscription) this.#hear(message.data);
  }

  #hear(data: Uint8Array): void {
    let load: PoolLoad;
    try {
      load = fromBinary(PoolLoadSchema, data);
    } catch (error) {
      this.#logger.warn("pool_load_unreadable", { error });
      return;
    }
    if (load.orchestrator !== this.#name) this.#open(load.pool).heard(load, performance.now());
  }

  /** Changes only: what is lost while NATS is away is said again. */
  #tell(): void {
    if (this.#nats.isClosed()) return;
    for (const [pool, watched] of this.#pools) {
      const changed = watched.load(performance.now(), TELL_AGAIN_MS);
      if (changed === undefined) continue;
      const load = create(PoolLoadSchema, { orchestrator: this.#name, pool, ...changed });
      this.#nats.publish(poolLoadSubject(pool), toBinary(PoolLoadSchema, load));
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
import { fromBinary } from "@bufbuild/protobuf";
import { type Nats, poolLoadSubject } from "@whetstone/messaging";
import { type PoolLoad, PoolLoadSchema } from "@whetstone/proto/events/v1/events";
import type { Logger } from "@whetstone/telemetry";

/** An orchestrator that was not heard of for so long is gone, and its sessions with it. */
const FORGET_MS = 10_000;

interface Report {
  readonly atMs: number;
  readonly load: PoolLoad;
}

/** Sessions by env-runner, as orchestrators tell: nobody has to ask thousands of pods. */
export class PoolLoads implements Disposable {
  readonly #reports = new Map<string, Report>();
  readonly #stop: () => void;

  /** @param onLoad  told of the pool's name */
  constructor(nats: Nats, logger: Logger, onLoad: (pool: string) => void = () => undefined) {
    const subscription = nats.subscribe(poolLoadSubject(), {
      callback: (error, message) => {
        if (error) logger.warn("pool_load_unreadable", { error });
        else this.#hear(message.data, logger, onLoad);
      },
    });
    this.#stop = () => {
      subscription.unsubscribe();
    };
  }

  /** By `PoolRunner.id`. */
  sessions(pool: string, nowMs: number): Map<string, number> {
    const sessions = new Map<string, number>();
    for (const [key, { atMs, load }] of this.#reports) {
      if (nowMs - atMs > FORGET_MS) this.#reports.delete(key);
      else if (load.pool === pool)
        for (const { id, sessions: count } of load.runners) sessions.set(id, (sessions.get(id) ?? 0) + count);
    }
    return sessions;
  }

  [Symbol.dispose](): void {
    this.#stop();
  }

  #hear(data: Uint8Array, logger: Logger, onLoad: (pool: string) => void): void {
    try {
      const load = fromBinary(PoolLoadSchema, data);
      this.#reports.set(`${load.orchestrator}/${load.pool}`, { atMs: Date.now(), load });
      onLoad(load.pool);
    } catch (error) {
      logger.warn("pool_load_unreadable", { error });
    }
  }
}

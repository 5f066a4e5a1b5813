// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import { type ObjectStore, Objm } from "@nats-io/obj";
import { raceSignal } from "@whetstone/core";
import { natsError } from "./nats-errors.ts";

/** One of NATS' object buckets. It is opened at the first use; `ensurePlatform` must have made it. */
export class ObjectBucket {
  readonly #connection: NatsConnection;
  readonly #name: string;
  #opened: Promise<ObjectStore> | undefined;

  constructor(connection: NatsConnection, name: string) {
    this.#connection = connection;
    this.#name = name;
  }

  /** @param what  names the attempt in errors, such as "get bundle ab12" */
  async use<T>(what: string, work: (bucket: ObjectStore) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return await raceSignal(
      this.#open()
        .then(work)
        .catch((error: unknown) => {
          throw natsError(error, what);
        }),
      signal,
    );
  }

  #open(): Promise<ObjectStore> {
    this.#opened ??= new Objm(this.#connection).open(this.#name).catch((error: unknown) => {
      this.#opened = undefined;
      throw natsError(error, `open object store ${this.#name}`);
    });
    return this.#opened;
  }
}

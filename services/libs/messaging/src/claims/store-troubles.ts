// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import { isAbort, WhetstoneError } from "@whetstone/core";

// Who cannot put a body into the object store tells whoever listens, by a message that is not stored: episodes wait meanwhile,
// and people should know why. It is told again at every try, and once all is well.

const SUBJECT = "ws-store.trouble";

export interface StoreTrouble {
  readonly isFull: boolean;
  /** With the object and the store's words. Empty: all is well again. */
  readonly message: string;
}

const WELL: StoreTrouble = { isFull: false, message: "" };

/** One of those who put bodies. */
export class TroubleTeller {
  readonly #connection: NatsConnection;
  #isTold = false;

  constructor(connection: NatsConnection) {
    this.#connection = connection;
  }

  /** @param object  "s3://bucket/prefix/name", which `work` puts */
  async during(object: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { code, message, context } = WhetstoneError.from(error);
      const words = "object" in context ? message : `${object}: ${message}`;
      if (!isAbort(error)) this.#tell({ isFull: code === "RESOURCE_EXHAUSTED", message: words });
      throw error;
    }
    if (this.#isTold) this.#tell(WELL);
  }

  #tell(trouble: StoreTrouble): void {
    this.#isTold = trouble !== WELL;
    if (!this.#connection.isClosed()) this.#connection.publish(SUBJECT, JSON.stringify(trouble));
  }
}

/** Until it is disposed. */
export function followStoreTroubles(
  connection: NatsConnection,
  onTrouble: (trouble: StoreTrouble) => void,
): Disposable {
  const subscription = connection.subscribe(SUBJECT, {
    callback: (error, message) => {
      if (error === null) onTrouble(message.json<StoreTrouble>());
    },
  });
  return {
    [Symbol.dispose]() {
      if (!connection.isClosed()) subscription.unsubscribe();
    },
  };
}

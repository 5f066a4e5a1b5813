// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";

/** Obeys the newest controller it has heard of, and no older one: a process that slept must not undo what its successor did. */
export class EpochFence {
  #highest = 0n;

  get highest(): bigint {
    return this.#highest;
  }

  /** @throws STALE_EPOCH */
  pass(epoch: bigint): void {
    if (epoch < this.#highest) {
      throw new WhetstoneError(
        "STALE_EPOCH",
        `epoch ${epoch} is over: a controller of epoch ${this.#highest} leads. The process that called has to end.`,
        { context: { epoch: String(epoch), highest: String(this.#highest) } },
      );
    }
    this.#highest = epoch;
  }
}

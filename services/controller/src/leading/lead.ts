// SPDX-License-Identifier: Apache-2.0
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { WhetstoneError } from "@whetstone/core";
import { LEDGER_BUCKET, type Nats, openKv } from "@whetstone/messaging";
import { EpochRecordSchema } from "@whetstone/proto/events/v1/events";

/** No job can be called so: names start with a letter or digit. */
const KEY = "_leader.epoch";

/** In whose name something is done: receivers refuse an epoch that is over. */
export interface Authority {
  readonly epoch: bigint;
  /** Throws STALE_EPOCH once it is over. */
  assert(): void;
}

/** The right of this process to act, with the epoch that everyone who is told to do something checks. */
export class Lead implements Authority {
  #held: { readonly epoch: bigint; readonly assert: () => void } | undefined;

  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** @throws FAILED_PRECONDITION before this process leads */
  get epoch(): bigint {
    return this.#holding().epoch;
  }

  /** Throws STALE_EPOCH when this process leads no longer. Call it before anything that others can see. */
  assert(): void {
    this.#holding().assert();
  }

  /** @param assert  throws once this process leads no longer; one that runs alone always does. */
  async take(nats: Nats, holder: string, assert: () => void = () => undefined): Promise<bigint> {
    assert();
    const epoch = await claimEpoch(nats, holder);
    assert();
    this.#held = { epoch, assert };
    return epoch;
  }

  #holding(): { readonly epoch: bigint; readonly assert: () => void } {
    if (!this.#held) throw new WhetstoneError("FAILED_PRECONDITION", "this controller does not lead");
    return this.#held;
  }
}

/**
 * One more than the former epoch, by compare-and-set in the ledger, and never less than the seconds since 1970: when the ledger
 * was lost, those who remember a higher epoch still take the new one.
 */
async function claimEpoch(nats: Nats, holder: string): Promise<bigint> {
  const epochs = await openKv(nats, LEDGER_BUCKET, EpochRecordSchema, { patient: true });
  const { value } = await epochs.change(KEY, (former) => {
    const seconds = BigInt(Math.floor(Date.now() / 1000));
    const next = (former?.epoch ?? 0n) + 1n;
    return { epoch: next > seconds ? next : seconds, holder, since: timestampNow() };
  });
  return value.epoch;
}

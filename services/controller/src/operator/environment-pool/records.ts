// SPDX-License-Identifier: Apache-2.0
import { clone, create, equals, type MessageInitShape } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { type Nats, openKv, POOLS_BUCKET, type TypedKv } from "@whetstone/messaging";
import { type PoolRecord, PoolRecordSchema } from "@whetstone/proto/events/v1/events";
import type { Lead } from "../../leading/lead.ts";

/** Written again now and then though nothing has changed: whoever lost it gets it back. */
const AGAIN_MS = 60_000;

/** The env-runners of each pool, for orchestrators: KV ws-pools. Writer: the leader. */
export class PoolRecords {
  readonly #kv: TypedKv<typeof PoolRecordSchema>;
  readonly #lead: Pick<Lead, "assert" | "epoch">;
  readonly #written = new Map<string, { readonly record: PoolRecord; readonly atMs: number }>();

  private constructor(kv: TypedKv<typeof PoolRecordSchema>, lead: Pick<Lead, "assert" | "epoch">) {
    this.#kv = kv;
    this.#lead = lead;
  }

  static async open(nats: Nats, lead: Pick<Lead, "assert" | "epoch">): Promise<PoolRecords> {
    return new PoolRecords(await openKv(nats, POOLS_BUCKET, PoolRecordSchema), lead);
  }

  /** @throws STALE_EPOCH when another leader has written since */
  async write(
    pool: string,
    fields: Pick<MessageInitShape<typeof PoolRecordSchema>, "runners" | "wantedRunners">,
    nowMs: number,
  ): Promise<void> {
    const record = create(PoolRecordSchema, { ...fields, epoch: this.#lead.epoch });
    const last = this.#written.get(pool);
    if (last && nowMs - last.atMs < AGAIN_MS && equals(PoolRecordSchema, last.record, record)) return;
    await this.#kv.change(pool, (former) => {
      this.#lead.assert();
      if (former && former.epoch > record.epoch)
        throw new WhetstoneError("STALE_EPOCH", `pool ${pool} is kept by a newer leader (epoch ${former.epoch})`);
      return record;
    });
    this.#written.set(pool, { record: clone(PoolRecordSchema, record), atMs: nowMs });
  }

  /** Of pools that are gone. */
  async keepOnly(pools: ReadonlySet<string>): Promise<void> {
    for (const name of await this.#kv.keys()) if (!pools.has(name)) await this.remove(name);
  }

  async remove(pool: string): Promise<void> {
    this.#lead.assert();
    this.#written.delete(pool);
    await this.#kv.delete(pool);
  }
}

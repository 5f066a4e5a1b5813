// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { runInTurns, WhetstoneError } from "@whetstone/core";
import { LEDGER_BUCKET, type Nats, openKv, type TypedKv } from "@whetstone/messaging";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  DispatchRecordSchema,
  EpochRecordSchema,
  type PolicyRecord,
  PolicyRecordSchema,
} from "@whetstone/proto/events/v1/events";
import { type DroppedEpisode, type StepRecord, StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import { encodeManifest } from "./manifest-bytes.ts";
import type { Ledger } from "../ports.ts";
import type { Authority } from "../../leading/lead.ts";

interface Books {
  readonly epochs: TypedKv<typeof EpochRecordSchema>;
  readonly policies: TypedKv<typeof PolicyRecordSchema>;
  readonly dispatches: TypedKv<typeof DispatchRecordSchema>;
  readonly batches: TypedKv<typeof BatchManifestSchema>;
  readonly steps: TypedKv<typeof StepRecordSchema>;
}

async function openBooks(nats: Nats): Promise<Books> {
  const book = <D extends DescMessage>(schema: D): Promise<TypedKv<D>> =>
    openKv(nats, LEDGER_BUCKET, schema, { patient: true });
  return {
    epochs: await book(EpochRecordSchema),
    policies: await book(PolicyRecordSchema),
    dispatches: await book(DispatchRecordSchema),
    batches: await book(BatchManifestSchema),
    steps: await book(StepRecordSchema),
  };
}

/** A job's books in the KV bucket ws-ledger; ARCHITECTURE.md, "Names", lists the keys. */
export class KvLedger implements Ledger {
  readonly epoch: bigint;
  readonly #job: string;
  readonly #books: Books;
  readonly #lead: Pick<Authority, "assert"> | undefined;

  private constructor(job: string, epoch: bigint, books: Books, lead: Pick<Authority, "assert"> | undefined) {
    this.#job = job;
    this.epoch = epoch;
    this.#books = books;
    this.#lead = lead;
  }

  /**
   * Takes the job over: from now on writes of any former holder are refused.
   * @param lead  asked before every write, without a word to anyone.
   */
  static async take(nats: Nats, job: string, holder: string, lead?: Pick<Authority, "assert">): Promise<KvLedger> {
    const books = await openBooks(nats);
    const { value } = await books.epochs.change(`${job}.epoch`, (former) => {
      lead?.assert();
      return { epoch: (former?.epoch ?? 0n) + 1n, holder, since: timestampNow() };
    });
    return new KvLedger(job, value.epoch, books, lead);
  }

  /** As one who took the job over with this epoch, a while ago. */
  static async resume(nats: Nats, job: string, epoch: bigint): Promise<KvLedger> {
    return new KvLedger(job, epoch, await openBooks(nats), undefined);
  }

  dispatches(): Promise<DispatchRecord[]> {
    return readAll(this.#books.dispatches, `${this.#job}.dispatch`);
  }

  async saveDispatch(record: DispatchRecord): Promise<void> {
    await this.#write(this.#books.dispatches, `${this.#job}.dispatch.${record.step}`, record);
  }

  async collected(): Promise<ReadonlySet<number>> {
    const prefix = `${this.#job}.batch`;
    const keys = await this.#books.batches.keys(prefix);
    return new Set(keys.map((key) => Number(key.slice(prefix.length + 1))));
  }

  manifest(step: number): Promise<Uint8Array | undefined> {
    return this.#books.batches.getBytes(`${this.#job}.batch.${step}`);
  }

  async createManifest(manifest: BatchManifest): Promise<Uint8Array> {
    const bytes = await runInTurns(encodeManifest(manifest));
    await this.verify();
    try {
      await this.#books.batches.createBytes(`${this.#job}.batch.${manifest.step}`, bytes);
    } catch (error) {
      if (WhetstoneError.from(error).code !== "ALREADY_EXISTS") throw error;
    }
    const stored = await this.manifest(manifest.step);
    if (!stored)
      throw new WhetstoneError("DATA_LOSS", `the manifest of step ${manifest.step} vanished from the ledger`);
    return stored;
  }

  steps(): Promise<StepRecord[]> {
    return readAll(this.#books.steps, `${this.#job}.step`);
  }

  async dropped(step: number): Promise<DroppedEpisode[]> {
    return (await this.#books.steps.get(`${this.#job}.step.${step}`))?.value.dropped ?? [];
  }

  async saveStep(record: StepRecord): Promise<void> {
    await this.#write(this.#books.steps, `${this.#job}.step.${record.step}`, record);
  }

  async policy(): Promise<PolicyRecord | undefined> {
    return (await this.#books.policies.get(`${this.#job}.policy`))?.value;
  }

  async savePolicy(record: PolicyRecord): Promise<void> {
    await this.#write(this.#books.policies, `${this.#job}.policy`, record);
  }

  /**
   * Replaces only what was there before the fence was passed: a process that stands still between the two writes nothing over
   * what its successor wrote meanwhile. Nobody else writes here as long as the job is ours: what is written twice is what an
   * answer was lost of.
   */
  async #write<D extends DescMessage>(kv: TypedKv<D>, key: string, value: MessageInitShape<D>): Promise<void> {
    await kv.change(key, async () => {
      await this.verify();
      return value;
    });
  }

  /** A controller that was replaced must not write: whatever it was about to say is for its successor to find out. */
  async verify(): Promise<void> {
    this.#lead?.assert();
    const newest = await this.#books.epochs.get(`${this.#job}.epoch`);
    if (newest?.value.epoch === this.epoch) return;
    throw new WhetstoneError(
      "STALE_EPOCH",
      `job ${this.#job} was taken over (epoch ${newest?.value.epoch}, ours is ${this.epoch})`,
    );
  }
}

/** Deletes a job's books. Nobody may be writing them. */
export async function eraseLedger(nats: Nats, job: string): Promise<void> {
  const books = await openKv(nats, LEDGER_BUCKET, EpochRecordSchema, { patient: true });
  for (const key of await books.keys(job)) await books.delete(key);
}

/** How many entries `eraseLedger` would delete. */
export async function countLedger(nats: Nats, job: string): Promise<number> {
  const books = await openKv(nats, LEDGER_BUCKET, EpochRecordSchema, { patient: true });
  return (await books.keys(job)).length;
}

/** Steps, manifests, dispatch records and policy of any job, without taking it over. */
export async function readLedger(nats: Nats): Promise<Omit<Books, "epochs">> {
  return openBooks(nats);
}

/** Values of `<prefix>.0`, `<prefix>.1`, … in order, up to the first gap. */
async function readAll<D extends DescMessage>(kv: TypedKv<D>, prefix: string): Promise<MessageShape<D>[]> {
  const count = (await kv.keys(prefix)).length;
  const records = await Promise.all(Array.from({ length: count }, (_, i) => kv.get(`${prefix}.${i}`)));
  const gap = records.findIndex((record) => record === undefined);
  return records.slice(0, gap === -1 ? count : gap).map((record) => (record as { value: MessageShape<D> }).value);
}

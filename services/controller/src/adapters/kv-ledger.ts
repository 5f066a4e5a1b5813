// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { WhetstoneError } from "@whetstone/core";
import { LEDGER_BUCKET, type Nats, type TypedKv } from "@whetstone/messaging";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  DispatchRecordSchema,
  EpochRecordSchema,
  type PolicyRecord,
  PolicyRecordSchema,
} from "@whetstone/proto/events/v1/events";
import { type StepRecord, StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Ledger } from "../loop/ports.ts";
import { openPatientKv } from "./patient-kv.ts";

interface Books {
  readonly epochs: TypedKv<typeof EpochRecordSchema>;
  readonly policies: TypedKv<typeof PolicyRecordSchema>;
  readonly dispatches: TypedKv<typeof DispatchRecordSchema>;
  readonly batches: TypedKv<typeof BatchManifestSchema>;
  readonly steps: TypedKv<typeof StepRecordSchema>;
}

async function openBooks(nats: Nats): Promise<Books> {
  const book = <D extends DescMessage>(schema: D): Promise<TypedKv<D>> => openPatientKv(nats, LEDGER_BUCKET, schema);
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

  private constructor(job: string, epoch: bigint, books: Books) {
    this.#job = job;
    this.epoch = epoch;
    this.#books = books;
  }

  /** Takes the job over: from now on writes of any former holder are refused. */
  static async take(nats: Nats, job: string, holder: string): Promise<KvLedger> {
    const books = await openBooks(nats);
    const key = `${job}.epoch`;
    const former = await books.epochs.get(key);
    const epoch = (former?.value.epoch ?? 0n) + 1n;
    const record = { epoch, holder, since: timestampNow() };
    if (former) await books.epochs.update(key, record, former.revision);
    else await books.epochs.create(key, record);
    return new KvLedger(job, epoch, books);
  }

  dispatches(): Promise<DispatchRecord[]> {
    return readAll(this.#books.dispatches, `${this.#job}.dispatch`);
  }

  async saveDispatch(record: DispatchRecord): Promise<void> {
    await this.#fence();
    await this.#books.dispatches.put(`${this.#job}.dispatch.${record.step}`, record);
  }

  async manifest(step: number): Promise<Uint8Array | undefined> {
    const stored = await this.#books.batches.get(`${this.#job}.batch.${step}`);
    // Encoding is canonical for this message (no maps, no unknown fields), so these are the stored bytes.
    return stored && toBinary(BatchManifestSchema, stored.value);
  }

  async createManifest(manifest: BatchManifest): Promise<Uint8Array> {
    await this.#fence();
    try {
      await this.#books.batches.create(`${this.#job}.batch.${manifest.step}`, manifest);
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

  async saveStep(record: StepRecord): Promise<void> {
    await this.#fence();
    await this.#books.steps.put(`${this.#job}.step.${record.step}`, record);
  }

  async policy(): Promise<PolicyRecord | undefined> {
    return (await this.#books.policies.get(`${this.#job}.policy`))?.value;
  }

  async savePolicy(record: PolicyRecord): Promise<void> {
    await this.#fence();
    await this.#books.policies.put(`${this.#job}.policy`, record);
  }

  /** A controller that was replaced must not write: whatever it was about to say is for its successor to find out. */
  async #fence(): Promise<void> {
    const newest = await this.#books.epochs.get(`${this.#job}.epoch`);
    if (newest?.value.epoch === this.epoch) return;
    throw new WhetstoneError(
      "STALE_EPOCH",
      `job ${this.#job} was taken over (epoch ${newest?.value.epoch}, ours is ${this.epoch})`,
    );
  }
}

/** Steps and manifests of any job, without taking it over. */
export async function readLedger(nats: Nats): Promise<Pick<Books, "steps" | "batches">> {
  return openBooks(nats);
}

/** Values of `<prefix>.0`, `<prefix>.1`, … in order, up to the first gap. */
async function readAll<D extends DescMessage>(kv: TypedKv<D>, prefix: string): Promise<MessageShape<D>[]> {
  const count = (await kv.keys(prefix)).length;
  const records = await Promise.all(Array.from({ length: count }, (_, i) => kv.get(`${prefix}.${i}`)));
  const gap = records.findIndex((record) => record === undefined);
  return records.slice(0, gap === -1 ? count : gap).map((record) => (record as { value: MessageShape<D> }).value);
}

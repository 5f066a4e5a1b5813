// SPDX-License-Identifier: Apache-2.0
import { create, type DescMessage, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { jetstream, type JsMsg } from "@nats-io/jetstream";
import { type KV, type KvEntry, Kvm } from "@nats-io/kv";
import type { NatsConnection } from "@nats-io/nats-core";
import { exponentialBackoff, retry, WhetstoneError, withTimeout } from "@whetstone/core";
import { type Logger, silentLogger } from "@whetstone/telemetry";
import { isOutage, isWrongLastSequence, natsError } from "./nats-errors.ts";
import { decode } from "./stored-message.ts";
import { tail } from "./tail.ts";

export interface KvRecord<M> {
  readonly key: string;
  readonly value: M;
  /** Of this value; give it to `update`. */
  readonly revision: number;
}

export type KvChange<M> =
  | { readonly kind: "put"; readonly key: string; readonly value: M; readonly revision: number }
  | { readonly kind: "delete"; readonly key: string; readonly revision: number };

export interface KvCallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Default 10,000. */
  readonly timeoutMs?: number | undefined;
}

export interface OpenKvOptions<D extends DescMessage = DescMessage> extends KvCallOptions {
  readonly logger?: Logger;
  /** Says what a former version wrote as values are written today. */
  readonly upgrade?: (value: MessageShape<D>) => MessageShape<D>;
  /**
   * Calls outlast an outage of NATS of about ten minutes (I8): a cluster that elects or a node that is replaced takes less, and
   * a job must not fail because its books could not be written for a minute. A call whose answer was lost may have taken
   * effect; callers treat ALREADY_EXISTS and CONFLICT accordingly.
   */
  readonly patient?: boolean;
}

/** Of one change; whoever competes for a key does so a few times at most. */
const CHANGE_ATTEMPTS = 20;
const PATIENCE = {
  attempts: 250,
  backoff: exponentialBackoff({ initialMs: 200, maxMs: 5000 }),
  isRetryable: isOutage,
} as const;

/** @throws NOT_FOUND when the bucket does not exist: `ensurePlatform` makes ours. */
export async function openKv<D extends DescMessage>(
  connection: NatsConnection,
  bucket: string,
  schema: D,
  options: OpenKvOptions<D> = {},
): Promise<TypedKv<D>> {
  const kv = await call(`open bucket ${bucket}`, () => new Kvm(connection).open(bucket), options);
  await call(`open bucket ${bucket}`, () => kv.status(), options);
  return new TypedKv({ connection, bucket, schema, kv, ...options });
}

interface Bucket<D extends DescMessage> extends OpenKvOptions<D> {
  readonly connection: NatsConnection;
  readonly bucket: string;
  readonly schema: D;
  readonly kv: KV;
}

/** A bucket whose values, at the keys you touch with it, are of one message type. */
export class TypedKv<D extends DescMessage> {
  readonly #bucket: Bucket<D>;

  constructor(bucket: Bucket<D>) {
    this.#bucket = bucket;
  }

  async get(key: string, options?: KvCallOptions): Promise<KvRecord<MessageShape<D>> | undefined> {
    const entry = await this.#stored(key, options);
    return entry && { key, value: this.#decode(entry.value, key), revision: entry.revision };
  }

  /** The value as stored, undecoded. */
  async getBytes(key: string, options?: KvCallOptions): Promise<Uint8Array | undefined> {
    return (await this.#stored(key, options))?.value;
  }

  /** @returns the revision. @throws ALREADY_EXISTS */
  create(key: string, value: MessageInitShape<D>, options?: KvCallOptions): Promise<number> {
    return this.createBytes(key, this.#encode(value), options);
  }

  /** As `create`, of a value that is encoded already. */
  async createBytes(key: string, value: Uint8Array, options?: KvCallOptions): Promise<number> {
    try {
      return await this.#call(`create ${this.#at(key)}`, (kv) => kv.create(key, value), options);
    } catch (error) {
      throw alreadyExists(error, this.#at(key));
    }
  }

  /** Compare and set. @throws CONFLICT when `revision` is not the newest */
  update(key: string, value: MessageInitShape<D>, revision: number, options?: KvCallOptions): Promise<number> {
    return this.#call(`update ${this.#at(key)}`, (kv) => kv.update(key, this.#encode(value), revision), options);
  }

  /**
   * Replaces what is there by what `next` makes of it (undefined: nothing is there), by compare-and-set. When somebody else
   * has written in between, or the answer to our own write was lost, `next` is asked again with what is there then: it must
   * not depend on anything but its argument. What it throws ends the change, and nothing is written.
   */
  async change(
    key: string,
    next: (former: MessageShape<D> | undefined) => MessageInitShape<D> | Promise<MessageInitShape<D>>,
    options?: KvCallOptions,
  ): Promise<KvRecord<MessageShape<D>>> {
    for (let attempt = 1; ; attempt++) {
      const former = await this.get(key, options);
      const value = create(this.#bucket.schema, await next(former?.value));
      try {
        const written = former ? this.update(key, value, former.revision, options) : this.create(key, value, options);
        return { key, value, revision: await written };
      } catch (error) {
        const { code } = WhetstoneError.from(error);
        if (attempt === CHANGE_ATTEMPTS || (code !== "CONFLICT" && code !== "ALREADY_EXISTS")) throw error;
      }
    }
  }

  /** Last writer wins. */
  put(key: string, value: MessageInitShape<D>, options?: KvCallOptions): Promise<number> {
    return this.#call(`put ${this.#at(key)}`, (kv) => kv.put(key, this.#encode(value)), options);
  }

  /** Deleting what is not there is no error. With a revision: compare and delete. @throws CONFLICT */
  delete(key: string, options?: KvCallOptions & { readonly revision?: number }): Promise<void> {
    const guard = options?.revision === undefined ? {} : { previousSeq: options.revision };
    return this.#call(`delete ${this.#at(key)}`, (kv) => kv.delete(key, guard), options);
  }

  /** Keys equal to the prefix or below it, by whole tokens: `fl-1.batch` covers `fl-1.batch.7`, not `fl-1.batches`. Empty: all. */
  keys(prefix = "", options?: KvCallOptions): Promise<string[]> {
    return this.#call(`list ${this.#at(prefix)}`, (kv) => listKeys(kv, prefix), options);
  }

  /** Every key with its newest revision, in one pass and without the values. */
  revisions(options?: KvCallOptions): Promise<Map<string, number>> {
    return this.#call(`list ${this.#bucket.bucket}`, listRevisions, options);
  }

  /** The present value of each key, then every change, for ever, across reconnects. */
  async *watch(prefix: string, signal: AbortSignal): AsyncGenerator<KvChange<MessageShape<D>>, never, undefined> {
    const { connection, bucket, logger = silentLogger } = this.#bucket;
    const root = `$KV.${bucket}.`;
    const deps = { connection, js: jetstream(connection), logger };
    const filterSubjects = filtersOf(prefix).map((filter) => root + filter);
    for await (const message of tail(deps, { stream: `KV_${bucket}`, lastPerSubject: true, filterSubjects, signal })) {
      yield this.#changeOf(message, message.subject.slice(root.length));
    }
    throw new Error("unreachable: a tail has no end");
  }

  #changeOf(message: JsMsg, key: string): KvChange<MessageShape<D>> {
    const operation = message.headers?.get("KV-Operation") ?? "";
    if (operation === "DEL" || operation === "PURGE") return { kind: "delete", key, revision: message.seq };
    return { kind: "put", key, value: this.#decode(message.data, key), revision: message.seq };
  }

  async #stored(key: string, options?: KvCallOptions): Promise<KvEntry | undefined> {
    const entry = await this.#call(`get ${key}`, (kv) => kv.get(key), options);
    return entry?.operation === "PUT" ? entry : undefined;
  }

  #call<T>(what: string, fn: (kv: KV) => Promise<T>, options?: KvCallOptions): Promise<T> {
    const { kv, patient } = this.#bucket;
    const once = () => call(what, () => fn(kv), options);
    return patient ? retry(once, PATIENCE) : once();
  }

  #encode(value: MessageInitShape<D>): Uint8Array {
    return toBinary(this.#bucket.schema, create(this.#bucket.schema, value));
  }

  #decode(bytes: Uint8Array, key: string): MessageShape<D> {
    const { schema, upgrade } = this.#bucket;
    const value = decode(schema, bytes, `key ${key}`);
    return upgrade ? upgrade(value) : value;
  }

  #at(key: string): string {
    return `${this.#bucket.bucket}/${key}`;
  }
}

async function call<T>(what: string, fn: () => Promise<T>, options: KvCallOptions = {}): Promise<T> {
  try {
    return await withTimeout(fn, { timeoutMs: options.timeoutMs ?? 10_000, signal: options.signal });
  } catch (error) {
    throw natsError(error, what);
  }
}

function alreadyExists(error: unknown, where: string): unknown {
  const cause = error instanceof WhetstoneError ? error.cause : error;
  if (!isWrongLastSequence(cause)) return error;
  return new WhetstoneError("ALREADY_EXISTS", `${where} already exists`, { context: { key: where }, cause });
}

function filtersOf(prefix: string): string[] {
  const tokens = prefix.replace(/\.$/, "");
  return tokens === "" ? [">"] : [tokens, `${tokens}.>`];
}

async function listKeys(kv: KV, prefix: string): Promise<string[]> {
  const keys = new Set<string>();
  for await (const key of await kv.keys(filtersOf(prefix))) keys.add(key);
  return [...keys].sort();
}

async function listRevisions(kv: KV): Promise<Map<string, number>> {
  const revisions = new Map<string, number>();
  if ((await kv.status()).values === 0) return revisions; // Then there is no last message to wait for.
  for await (const { key, operation, revision, delta } of await kv.watch({ headers_only: true })) {
    if (operation === "PUT") revisions.set(key, revision);
    else revisions.delete(key);
    if (delta === 0) break;
  }
  return revisions;
}

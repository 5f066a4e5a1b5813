// SPDX-License-Identifier: Apache-2.0
import { create, type DescMessage, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { jetstream, type JsMsg } from "@nats-io/jetstream";
import { type KV, type KvEntry, Kvm } from "@nats-io/kv";
import type { NatsConnection } from "@nats-io/nats-core";
import { WhetstoneError, withTimeout } from "@whetstone/core";
import { type Logger, silentLogger } from "@whetstone/telemetry";
import { isWrongLastSequence, natsError } from "./nats-errors.ts";
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

/** A bucket whose values, at the keys you touch with it, are of one message type. */
export interface TypedKv<D extends DescMessage> {
  get(key: string, options?: KvCallOptions): Promise<KvRecord<MessageShape<D>> | undefined>;
  /** The value as stored, undecoded. */
  getBytes(key: string, options?: KvCallOptions): Promise<Uint8Array | undefined>;
  /** @returns the revision. @throws ALREADY_EXISTS */
  create(key: string, value: MessageInitShape<D>, options?: KvCallOptions): Promise<number>;
  /** As `create`, of a value that is encoded already. */
  createBytes(key: string, value: Uint8Array, options?: KvCallOptions): Promise<number>;
  /** Compare and set. @throws CONFLICT when `revision` is not the newest */
  update(key: string, value: MessageInitShape<D>, revision: number, options?: KvCallOptions): Promise<number>;
  /** Last writer wins. */
  put(key: string, value: MessageInitShape<D>, options?: KvCallOptions): Promise<number>;
  /** Deleting what is not there is no error. With a revision: compare and delete. @throws CONFLICT */
  delete(key: string, options?: KvCallOptions & { readonly revision?: number }): Promise<void>;
  /** Keys equal to the prefix or below it, by whole tokens: `fl-1.batch` covers `fl-1.batch.7`, not `fl-1.batches`. Empty: all. */
  keys(prefix?: string, options?: KvCallOptions): Promise<string[]>;
  /** Every key with its newest revision, in one pass and without the values. */
  revisions(options?: KvCallOptions): Promise<Map<string, number>>;
  /** The present value of each key, then every change, for ever, across reconnects. */
  watch(prefix: string, signal: AbortSignal): AsyncIterable<KvChange<MessageShape<D>>>;
}

export interface OpenKvOptions extends KvCallOptions {
  readonly logger?: Logger;
}

/** @throws NOT_FOUND when the bucket does not exist: `ensurePlatform` makes ours. */
export async function openKv<D extends DescMessage>(
  connection: NatsConnection,
  bucket: string,
  schema: D,
  options: OpenKvOptions = {},
): Promise<TypedKv<D>> {
  const kv = await call(`open bucket ${bucket}`, () => new Kvm(connection).open(bucket), options);
  await call(`open bucket ${bucket}`, () => kv.status(), options);
  const encode = (value: MessageInitShape<D>): Uint8Array => toBinary(schema, create(schema, value));
  const at = (key: string): string => `${bucket}/${key}`;
  const createBytes = (key: string, value: Uint8Array, o?: KvCallOptions): Promise<number> =>
    call(`create ${at(key)}`, () => kv.create(key, value), o).catch((error: unknown) => {
      throw alreadyExists(error, at(key));
    });
  return {
    get: (key, o) => get(kv, schema, key, o),
    getBytes: async (key, o) => (await stored(kv, key, o))?.value,
    create: (key, value, o) => createBytes(key, encode(value), o),
    createBytes,
    update: (key, value, revision, o) => call(`update ${at(key)}`, () => kv.update(key, encode(value), revision), o),
    put: (key, value, o) => call(`put ${at(key)}`, () => kv.put(key, encode(value)), o),
    delete: (key, o) => {
      const guard = o?.revision === undefined ? {} : { previousSeq: o.revision };
      return call(`delete ${at(key)}`, () => kv.delete(key, guard), o);
    },
    keys: (prefix = "", o) => call(`list ${at(prefix)}`, () => listKeys(kv, prefix), o),
    revisions: (o) => call(`list ${bucket}`, () => listRevisions(kv), o),
    watch: (prefix, signal) => watch(connection, schema, { bucket, prefix, signal, logger: options.logger }),
  };
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

async function get<D extends DescMessage>(
  kv: KV,
  schema: D,
  key: string,
  options?: KvCallOptions,
): Promise<KvRecord<MessageShape<D>> | undefined> {
  const entry = await stored(kv, key, options);
  return entry && { key, value: decode(schema, entry.value, `key ${key}`), revision: entry.revision };
}

async function stored(kv: KV, key: string, options?: KvCallOptions): Promise<KvEntry | undefined> {
  const entry = await call(`get ${key}`, () => kv.get(key), options);
  return entry?.operation === "PUT" ? entry : undefined;
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

interface WatchTarget {
  readonly bucket: string;
  readonly prefix: string;
  readonly signal: AbortSignal;
  readonly logger: Logger | undefined;
}

async function* watch<D extends DescMessage>(
  connection: NatsConnection,
  schema: D,
  { bucket, prefix, signal, logger = silentLogger }: WatchTarget,
): AsyncGenerator<KvChange<MessageShape<D>>, never, undefined> {
  const root = `$KV.${bucket}.`;
  const deps = { connection, js: jetstream(connection), logger };
  const filterSubjects = filtersOf(prefix).map((filter) => root + filter);
  for await (const message of tail(deps, { stream: `KV_${bucket}`, lastPerSubject: true, filterSubjects, signal })) {
    yield toChange(schema, message, message.subject.slice(root.length));
  }
  throw new Error("unreachable: a tail has no end");
}

function toChange<D extends DescMessage>(schema: D, message: JsMsg, key: string): KvChange<MessageShape<D>> {
  const operation = message.headers?.get("KV-Operation") ?? "";
  if (operation === "DEL" || operation === "PURGE") return { kind: "delete", key, revision: message.seq };
  return { kind: "put", key, value: decode(schema, message.data, `key ${key}`), revision: message.seq };
}

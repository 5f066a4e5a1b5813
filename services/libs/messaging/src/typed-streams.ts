// SPDX-License-Identifier: Apache-2.0
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import {
  jetstream,
  jetstreamManager,
  type JetStreamManager,
  type JsMsg,
  type MsgRequest,
  type StoredMsg,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { raceSignal, withTimeout } from "@whetstone/core";
import { type Logger, silentLogger } from "@whetstone/telemetry";
import { type ClaimOptions, type ClaimStore, openClaimStore } from "./claims/claim-store.ts";
import { API, apiCode, natsError } from "./nats-errors.ts";
import { createPublish, type PublishFn } from "./publish.ts";
import { pullTasks, type PullOptions, type Task } from "./pull-tasks.ts";
import { decode, type Headers, readHeaders, resolveBytes, type StoredMessage } from "./stored-message.ts";
import { tail } from "./tail.ts";

export interface ReadOptions {
  /** First sequence wanted; default 1, the oldest. */
  readonly startSequence?: number | undefined;
  /** Do not transfer bodies; `body()` then fetches its own. */
  readonly headersOnly?: boolean | undefined;
  readonly filterSubject?: string | undefined;
  /** Messages read ahead; default 64. */
  readonly prefetch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface GetOptions {
  readonly signal?: AbortSignal | undefined;
  /** Default 10,000. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Streams of protobuf messages. Every body above 512 KiB travels by claim check, both ways, unseen by the caller, wherever the
 * body lies.
 */
export interface TypedStreams {
  readonly publish: PublishFn;
  /** See `pullTasks`: a shared work queue, explicit acks, bounded. */
  pullTasks<D extends DescMessage>(options: PullOptions<D>): AsyncIterable<Task<MessageShape<D>>>;
  /** Tails a stream for ever: strictly increasing sequences, nothing skipped, across reconnects and restarts. */
  readFrom<D extends DescMessage>(
    stream: string,
    schema: D,
    options?: ReadOptions,
  ): AsyncIterable<StoredMessage<MessageShape<D>>>;
  /** One message by its position; undefined when it was never there or is gone. */
  getBySequence<D extends DescMessage>(
    stream: string,
    schema: D,
    sequence: number,
    options?: GetOptions,
  ): Promise<StoredMessage<MessageShape<D>> | undefined>;
  /** The newest message of a subject; undefined without one. */
  getLast<D extends DescMessage>(
    stream: string,
    schema: D,
    subject: string,
    options?: GetOptions,
  ): Promise<StoredMessage<MessageShape<D>> | undefined>;
  readonly claims: ClaimStore;
}

interface Deps {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  readonly claims: ClaimStore;
  readonly logger: Logger;
}

export async function openStreams(
  connection: NatsConnection,
  options: ClaimOptions & { readonly logger?: Logger } = {},
): Promise<TypedStreams> {
  const js = jetstream(connection);
  const manager = await jetstreamManager(connection, { checkAPI: false });
  const claims = openClaimStore(connection, options);
  const deps = { connection, js, manager, claims, logger: options.logger ?? silentLogger };
  return {
    claims,
    publish: createPublish(deps),
    pullTasks: (pull) => pullTasks(deps, pull),
    readFrom: (stream, schema, read = {}) => readFrom({ ...deps, js }, stream, schema, read),
    getBySequence: (stream, schema, sequence, get = {}) =>
      getOne(deps, schema, { stream, query: { seq: sequence } }, get),
    getLast: (stream, schema, subject, get = {}) =>
      getOne(deps, schema, { stream, query: { last_by_subj: subject } }, get),
  };
}

async function* readFrom<D extends DescMessage>(
  deps: Deps & { readonly js: ReturnType<typeof jetstream> },
  stream: string,
  schema: D,
  options: ReadOptions,
): AsyncGenerator<StoredMessage<MessageShape<D>>, never, undefined> {
  const { filterSubject, headersOnly = false, ...rest } = options;
  const filterSubjects = filterSubject === undefined ? undefined : [filterSubject];
  for await (const message of tail(deps, { ...rest, stream, headersOnly, filterSubjects })) {
    yield fromDelivery(deps, schema, message, headersOnly);
  }
  throw new Error("unreachable: a tail has no end");
}

function fromDelivery<D extends DescMessage>(
  deps: Deps,
  schema: D,
  message: JsMsg,
  headersOnly: boolean,
): StoredMessage<MessageShape<D>> {
  const { stream, timestampNanos } = message.info;
  const position = { stream, sequence: message.seq, subject: message.subject };
  const data = headersOnly ? () => fetchData(deps, stream, message.seq) : () => Promise.resolve(message.data);
  const publishedAt = new Date(Math.floor(timestampNanos / 1e6));
  return stored(deps, schema, { ...position, headers: readHeaders(message.headers), publishedAt, data });
}

async function fetchData(deps: Deps, stream: string, sequence: number): Promise<Uint8Array> {
  const message = await find(deps.manager, stream, { seq: sequence });
  if (message === undefined) throw natsError(new Error("the message is gone"), `read ${stream} message ${sequence}`);
  return message.data;
}

interface RawMessage {
  readonly stream: string;
  readonly sequence: number;
  readonly subject: string;
  readonly headers: Headers;
  readonly publishedAt: Date;
  readonly data: () => Promise<Uint8Array>;
}

function stored<D extends DescMessage>(deps: Deps, schema: D, raw: RawMessage): StoredMessage<MessageShape<D>> {
  const { data, ...position } = raw;
  const bytes = async (signal?: AbortSignal): Promise<Uint8Array> =>
    await resolveBytes(deps.claims, raw.headers, await raceSignal(data(), signal), signal);
  return {
    ...position,
    msgId: raw.headers["Nats-Msg-Id"],
    bytes,
    body: async (signal) => decode(schema, await bytes(signal), `${raw.stream} message ${raw.sequence}`),
  };
}

async function getOne<D extends DescMessage>(
  deps: Deps,
  schema: D,
  { stream, query }: { readonly stream: string; readonly query: MsgRequest },
  { signal, timeoutMs = 10_000 }: GetOptions,
): Promise<StoredMessage<MessageShape<D>> | undefined> {
  const message = await withTimeout(() => find(deps.manager, stream, query), { timeoutMs, signal });
  if (message === undefined) return undefined;
  const { subject, seq, header, time, data } = message;
  const headers = readHeaders(header);
  return stored(deps, schema, {
    stream,
    subject,
    sequence: seq,
    headers,
    publishedAt: time,
    data: () => Promise.resolve(data),
  });
}

/** Asks the stream's leader: a replica may not have the newest messages yet. */
async function find(manager: JetStreamManager, stream: string, query: MsgRequest): Promise<StoredMsg | undefined> {
  try {
    return (await manager.streams.getMessage(stream, query)) ?? undefined;
  } catch (error) {
    if (apiCode(error) === API.messageNotFound) return undefined;
    throw natsError(error, `read ${stream}`);
  }
}

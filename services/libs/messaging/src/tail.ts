// SPDX-License-Identifier: Apache-2.0
import {
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamClient,
  type JsMsg,
  type OrderedConsumerOptions,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { exponentialBackoff, raceSignal, sleep } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import { API, apiCode, natsError } from "./nats-errors.ts";

// T1: sequences are strictly increasing and, within the filter, nothing is skipped: the cursor lives here, moves only when a
// message has been handed over, and every rebuilt consumer starts right behind it. T2: the consumer is rebuilt after missed
// heartbeats, a reconnect, a deleted consumer and any error, with back-off, for ever; only a missing stream and the signal end it.

export interface TailOptions {
  readonly stream: string;
  /** First sequence wanted; default 1, the oldest. */
  readonly startSequence?: number | undefined;
  /** Start with the newest message of each subject instead. */
  readonly lastPerSubject?: boolean | undefined;
  readonly headersOnly?: boolean | undefined;
  readonly filterSubjects?: readonly string[] | undefined;
  /** Messages read ahead; default 64. */
  readonly prefetch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface TailDeps {
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly logger: Logger;
}

const HEARTBEAT_MS = 2_000;
const EXPIRES_MS = 10_000;

/** Reads a stream for ever. @throws NOT_FOUND when the stream does not exist (any more), or the signal's reason. */
export async function* tail(deps: TailDeps, options: TailOptions): AsyncGenerator<JsMsg, never, undefined> {
  const cursor = { next: options.startSequence ?? 1, moved: false };
  const backoff = exponentialBackoff({ initialMs: 50, maxMs: 2_000 });
  for (let failures = 0; ;) {
    const before = cursor.next;
    try {
      yield* readUntilBroken(deps, options, cursor);
    } catch (error) {
      options.signal?.throwIfAborted();
      if (apiCode(error) === API.streamNotFound) throw natsError(error, `read ${options.stream}`);
      deps.logger.debug("stream_reader_rebuilt", { stream: options.stream, next: cursor.next, error });
    }
    failures = cursor.next > before ? 0 : failures + 1;
    await sleep(backoff(failures), options.signal);
  }
}

interface Cursor {
  next: number;
  moved: boolean;
}

async function* readUntilBroken(deps: TailDeps, options: TailOptions, cursor: Cursor): AsyncGenerator<JsMsg, void> {
  const { signal } = options;
  const opening = openConsumer(deps, options, cursor);
  closeIfAborted(opening, signal);
  const messages = await raceSignal(opening, signal);
  const stop = (): void => void messages.close();
  signal?.addEventListener("abort", stop, { once: true });
  const statuses = deps.connection.status();
  void closeWhenStale(messages, statuses);
  try {
    for await (const message of messages) {
      if (message.seq < cursor.next) continue; // T1: a repeat.
      cursor.next = message.seq + 1;
      cursor.moved = true;
      yield message;
    }
    signal?.throwIfAborted();
  } finally {
    signal?.removeEventListener("abort", stop);
    (statuses as AsyncIterable<unknown> & { stop?: () => void }).stop?.();
    stop();
  }
}

/** A consumer that opens after the signal has aborted has no reader to close it. */
function closeIfAborted(opening: Promise<ConsumerMessages>, signal: AbortSignal | undefined): void {
  opening
    .then((messages) => {
      if (signal?.aborted) void messages.close();
    })
    .catch(() => undefined); // The reader sees it.
}

async function openConsumer(deps: TailDeps, options: TailOptions, cursor: Cursor): Promise<ConsumerMessages> {
  const fromLast = options.lastPerSubject === true && !cursor.moved;
  const settings: Partial<OrderedConsumerOptions> = {
    headers_only: options.headersOnly ?? false,
    ...(options.filterSubjects === undefined ? {} : { filter_subjects: [...options.filterSubjects] }),
    ...(fromLast
      ? { deliver_policy: DeliverPolicy.LastPerSubject }
      : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: cursor.next }),
  };
  const consumer = await deps.js.consumers.get(options.stream, settings);
  return await consumer.consume({
    max_messages: options.prefetch ?? 64,
    expires: EXPIRES_MS,
    idle_heartbeat: HEARTBEAT_MS,
    abort_on_missing_resource: true,
  });
}

/** T2: the client would try to heal by itself, in up to half a minute; starting again behind the cursor takes milliseconds. */
async function closeWhenStale(messages: ConsumerMessages, statuses: AsyncIterable<{ type: string }>): Promise<void> {
  const watch = async (source: AsyncIterable<{ type: string }>, types: readonly string[]): Promise<void> => {
    for await (const { type } of source) if (types.includes(type)) void messages.close();
  };
  await Promise.all([
    watch(messages.status(), ["heartbeats_missed", "consumer_deleted", "consumer_not_found", "stream_not_found"]),
    watch(statuses, ["reconnect"]),
  ]);
}

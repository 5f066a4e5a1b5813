// SPDX-License-Identifier: Apache-2.0
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { AckPolicy, type Consumer, type ConsumerConfig, type JetStreamManager, type JsMsg } from "@nats-io/jetstream";
import { type NatsConnection, nanos } from "@nats-io/nats-core";
import { abortReason, exponentialBackoff, sleep, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { ClaimStore } from "./claims/claim-store.ts";
import { API, apiCode, natsError } from "./nats-errors.ts";
import { PullWindow } from "./pull-window.ts";
import { decode, type Headers, readHeaders, resolveBytes } from "./stored-message.ts";

// W1: never more than maxInFlight tasks are handed out and not settled, and none is fetched before a slot is free, so no
// ack deadline runs while a task waits in a buffer. W2: a task is lost by no crash: what is not acknowledged is delivered
// again. W3: fetching goes on after missed heartbeats, reconnects, server restarts and deletion of the consumer, for ever;
// only a missing stream and the signal end it. W4: a task that cannot be read is terminated and reported, never handed out.

export interface PullOptions<D extends DescMessage> {
  readonly stream: string;
  /** Name of the durable consumer: replicas that share it share the work. */
  readonly durable: string;
  readonly schema: D;
  readonly filterSubject?: string | undefined;
  /** Tasks handed out and not settled, of this process. */
  readonly maxInFlight: number | PullWindow;
  /** Tasks handed out and not settled, of all processes; default 20,000. */
  readonly maxAckPending?: number | undefined;
  /** Without ack or `working()` for so long, the task is delivered again; default 15,000. */
  readonly ackWaitMs?: number | undefined;
  /** Deliveries of one task, the first included; default 5. */
  readonly maxDeliver?: number | undefined;
  /** Send `working()` this often for each task until it is settled. Absent: the caller does. */
  readonly keepAliveMs?: number | undefined;
  /** Told of a task that cannot be read, before it is terminated (W4). */
  readonly onPoison?: ((poison: PoisonMessage) => Promise<void> | void) | undefined;
  readonly signal: AbortSignal;
}

export interface PoisonMessage {
  readonly sequence: number;
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly deliveries: number;
  readonly error: WhetstoneError;
}

/** One delivery. It must be settled once: by `ack`, `nak` or `term`; later calls do nothing. */
export interface Task<M> {
  readonly message: M;
  /** Deliveries of this task so far, from 1. */
  readonly attempt: number;
  readonly sequence: number;
  readonly subject: string;
  readonly headers: Headers;
  readonly settled: boolean;
  /** Restarts the ack deadline. */
  readonly working: () => void;
  /** Resolves when the server has confirmed: the task will not come back. @throws UNAVAILABLE: it may. */
  readonly ack: (signal?: AbortSignal) => Promise<void>;
  /** Hands it back, to be delivered again after the delay. */
  readonly nak: (delayMs?: number) => void;
  /** Never again. */
  readonly term: () => void;
}

export interface PullDeps {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  readonly claims: ClaimStore;
  readonly logger: Logger;
}

const FETCH_MS = 5_000;
const HEARTBEAT_MS = 1_000;
/** A fetch that has not ended so long after its end is given up: the connection or the consumer was replaced under it. */
const FETCH_GRACE_MS = 3_000;
const MAX_BATCH = 256;
const MAX_FETCHES = 16;
const ACK_ATTEMPTS = 3;
const ACK_MS = 5_000;

/** Tasks of a work queue, one by one, as slots free. @throws NOT_FOUND without the stream; the signal's reason. */
export async function* pullTasks<D extends DescMessage>(
  deps: PullDeps,
  options: PullOptions<D>,
): AsyncGenerator<Task<MessageShape<D>>, never, undefined> {
  const puller = new Puller(deps, options);
  try {
    for (;;) {
      const raw = await puller.next();
      const task = await openTask(deps, options, raw, () => {
        puller.free();
      });
      if (task !== undefined) yield task;
    }
  } finally {
    puller.stop();
  }
}

class Puller {
  readonly #deps: PullDeps;
  readonly #options: PullOptions<DescMessage>;
  readonly #window: PullWindow;
  readonly #stopped = new AbortController();
  readonly #ready: JsMsg[] = [];
  #consumer: Promise<Consumer> | undefined;
  #inFlight = 0; // Handed out and not settled.
  #requested = 0; // Asked of the server and not arrived.
  #fetches = 0;
  #failures = 0;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(deps: PullDeps, options: PullOptions<DescMessage>) {
    this.#deps = deps;
    this.#options = options;
    const { maxInFlight } = options;
    this.#window = typeof maxInFlight === "number" ? new PullWindow(maxInFlight) : maxInFlight;
    this.#window.listen(() => {
      this.#request();
    });
    options.signal.addEventListener("abort", this.stop, { once: true });
    if (options.signal.aborted) this.stop();
  }

  async next(): Promise<JsMsg> {
    for (;;) {
      if (this.#options.signal.aborted) throw abortReason(this.#options.signal);
      if (this.#failure !== undefined) throw this.#failure;
      const message = this.#ready.shift();
      if (message !== undefined) {
        this.#inFlight += 1;
        return message;
      }
      this.#request();
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  free(): void {
    this.#inFlight -= 1;
    this.#request();
  }

  /** Hands back at once what was fetched and not handed out. */
  readonly stop = (): void => {
    this.#options.signal.removeEventListener("abort", this.stop);
    this.#stopped.abort();
    for (const message of this.#ready.splice(0)) message.nak();
    this.#wake?.();
  };

  /** W1: asks for exactly the slots that nobody fills. */
  #request(): void {
    const wanted = this.#window.size - this.#inFlight - this.#requested - this.#ready.length;
    if (wanted < 1 || this.#fetches >= MAX_FETCHES || this.#stopped.signal.aborted) return;
    const count = Math.min(wanted, MAX_BATCH);
    this.#requested += count;
    this.#fetches += 1;
    void this.#fetch(count);
  }

  async #fetch(count: number): Promise<void> {
    let arrived = 0;
    const take = (message: JsMsg): void => {
      arrived += 1;
      this.#requested -= 1;
      this.#accept(message);
    };
    try {
      await fetchBatch(await this.#open(), count, { take, signal: this.#stopped.signal });
      this.#failures = 0;
    } catch (error) {
      await this.#recover(error);
    } finally {
      this.#requested -= count - arrived;
      this.#fetches -= 1;
      this.#request();
      this.#wake?.();
    }
  }

  #accept(message: JsMsg): void {
    if (this.#stopped.signal.aborted) {
      message.nak();
      return;
    }
    this.#ready.push(message);
    this.#wake?.();
  }

  #open(): Promise<Consumer> {
    this.#consumer ??= ensureConsumer(this.#deps, this.#options);
    return this.#consumer;
  }

  /** W3 */
  async #recover(error: unknown): Promise<void> {
    this.#consumer = undefined;
    if (this.#stopped.signal.aborted) return;
    this.#failures += 1;
    const { stream, durable } = this.#options;
    if (apiCode(error) === API.streamNotFound) this.#failure = natsError(error, `pull from ${stream}`);
    this.#deps.logger.debug("task_consumer_rebuilt", { stream, durable, failures: this.#failures, error });
    const waitMs = exponentialBackoff({ initialMs: 50, maxMs: 2_000 })(this.#failures);
    await sleep(waitMs, this.#stopped.signal).catch(() => undefined);
  }
}

async function ensureConsumer(deps: PullDeps, options: PullOptions<DescMessage>): Promise<Consumer> {
  const config: Partial<ConsumerConfig> = {
    durable_name: options.durable,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(options.ackWaitMs ?? 15_000),
    max_deliver: options.maxDeliver ?? 5,
    max_ack_pending: options.maxAckPending ?? 20_000,
    ...(options.filterSubject === undefined ? {} : { filter_subject: options.filterSubject }),
  };
  await deps.manager.consumers.add(options.stream, config); // Creates it, or brings it to this configuration.
  return await deps.manager.jetstream().consumers.get(options.stream, options.durable);
}

interface FetchTarget {
  readonly take: (message: JsMsg) => void;
  readonly signal: AbortSignal;
}

async function fetchBatch(consumer: Consumer, count: number, { take, signal }: FetchTarget): Promise<void> {
  if (signal.aborted) return;
  const messages = await consumer.fetch({ max_messages: count, expires: FETCH_MS, idle_heartbeat: HEARTBEAT_MS });
  const stop = (): void => void messages.close();
  const guard = setTimeout(stop, FETCH_MS + FETCH_GRACE_MS);
  signal.addEventListener("abort", stop, { once: true });
  try {
    for await (const message of messages) take(message);
  } finally {
    clearTimeout(guard);
    signal.removeEventListener("abort", stop);
  }
}

async function openTask<D extends DescMessage>(
  deps: PullDeps,
  options: PullOptions<D>,
  raw: JsMsg,
  onSettled: () => void,
): Promise<Task<MessageShape<D>> | undefined> {
  const delivery = new Delivery(raw, options.keepAliveMs, onSettled);
  const headers = readHeaders(raw.headers);
  try {
    const bytes = await resolveBytes(deps.claims, headers, raw.data, options.signal);
    const message = decode(options.schema, bytes, `${options.stream} message ${raw.seq}`);
    return delivery.toTask(message, headers);
  } catch (thrown) {
    const error = natsError(thrown, `read ${options.stream} message ${raw.seq}`);
    await setAside(deps, options, { raw, delivery, error });
    return undefined;
  }
}

interface Unreadable {
  readonly raw: JsMsg;
  readonly delivery: Delivery;
  readonly error: WhetstoneError;
}

/** W4. What may be readable later is handed back instead. */
async function setAside(
  deps: PullDeps,
  options: PullOptions<DescMessage>,
  { raw, delivery, error }: Unreadable,
): Promise<void> {
  if (error.code !== "CONTRACT_VIOLATION" && error.code !== "DATA_LOSS") {
    delivery.nak(1_000);
    return;
  }
  deps.logger.error("poison_message", { stream: options.stream, sequence: raw.seq, subject: raw.subject, error });
  const poison = {
    sequence: raw.seq,
    subject: raw.subject,
    payload: raw.data,
    deliveries: raw.info.deliveryCount,
    error,
  };
  await options.onPoison?.(poison);
  delivery.term();
}

class Delivery {
  readonly #raw: JsMsg;
  readonly #onSettled: () => void;
  readonly #timer: NodeJS.Timeout | undefined;
  #settled = false;

  constructor(raw: JsMsg, keepAliveMs: number | undefined, onSettled: () => void) {
    this.#raw = raw;
    this.#onSettled = onSettled;
    if (keepAliveMs === undefined) return;
    this.#timer = setInterval(() => {
      raw.working();
    }, keepAliveMs);
    this.#timer.unref();
  }

  toTask<M>(message: M, headers: Headers): Task<M> {
    const isSettled = (): boolean => this.#settled;
    return {
      message,
      headers,
      attempt: this.#raw.info.deliveryCount,
      sequence: this.#raw.seq,
      subject: this.#raw.subject,
      get settled() {
        return isSettled();
      },
      working: () => {
        if (!this.#settled) this.#raw.working();
      },
      ack: (signal) => this.ack(signal),
      nak: (delayMs) => {
        this.nak(delayMs);
      },
      term: () => {
        this.term();
      },
    };
  }

  async ack(signal?: AbortSignal): Promise<void> {
    if (this.#settled) return;
    try {
      await confirmAck(this.#raw, signal);
    } finally {
      this.#settle(); // Confirmed, or coming back by its ack deadline: either way the slot is free.
    }
  }

  nak(delayMs?: number): void {
    if (this.#settle()) this.#raw.nak(delayMs);
  }

  /** Without a reason: servers before 2.10.4 ignore a termination that has one. */
  term(): void {
    if (this.#settle()) this.#raw.term();
  }

  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    clearInterval(this.#timer);
    this.#onSettled();
    return true;
  }
}

async function confirmAck(raw: JsMsg, signal: AbortSignal | undefined): Promise<void> {
  let cause: unknown;
  for (let attempt = 1; attempt <= ACK_ATTEMPTS; attempt += 1) {
    signal?.throwIfAborted();
    try {
      if (await raw.ackAck({ timeout: ACK_MS })) return;
    } catch (error) {
      cause = error; // The first ack may have arrived although its answer did not: asking again is harmless.
    }
  }
  throw new WhetstoneError("UNAVAILABLE", `the ack of message ${raw.seq} was not confirmed`, { retry: "safe", cause });
}

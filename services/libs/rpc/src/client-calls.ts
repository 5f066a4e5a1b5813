// SPDX-License-Identifier: Apache-2.0
import { create, type DescMethod, type Message } from "@bufbuild/protobuf";
import {
  type CallOptions as GrpcCallOptions,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  connectivityState,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { abortReason, raceSignal, WhetstoneError } from "@whetstone/core";
import { fromStatus } from "./error-mapping.ts";
import { drained, MessageQueue } from "./message-queue.ts";
import type { CallOptions } from "./types.ts";
import { deserializer, pathOf, serializer } from "./wire.ts";

/** The initial fields of a message whose schema is known at run time only. */
export type Fields = Record<string, unknown>;

export interface Connection {
  readonly client: Client;
  readonly address: string;
  readonly deadlineMs: number;
  readonly connectTimeoutMs: number;
  /** Calls in progress: closing a channel would leave them running. */
  readonly calls: Set<{ cancel(): void }>;
}

interface Cancellable {
  cancel(): void;
  on(event: "status", listener: () => void): unknown;
}

function track(connection: Connection, call: Cancellable): void {
  connection.calls.add(call);
  call.on("status", () => connection.calls.delete(call));
}

export function unaryCall(
  connection: Connection,
  method: DescMethod,
  request: Fields,
  options: CallOptions,
): Promise<Message> {
  const { promise, resolve, reject } = Promise.withResolvers<Message>();
  if (options.signal?.aborted) return Promise.reject(abortReason(options.signal));
  const call = connection.client.makeUnaryRequest(
    pathOf(method),
    serializer(method.input),
    deserializer(method.output),
    create(method.input, request),
    waiting(options.failFast !== true),
    callOptions(options.deadlineMs ?? connection.deadlineMs),
    (error, response) => {
      if (error === null) resolve(response as Message);
      else reject(toError(connection, method, error, options.signal));
    },
  );
  track(connection, call);
  return withCancel(promise, call, options.signal);
}

/** Opens at once; the answer is read at the reader's pace. Leaving the loop early cancels the call. */
export function streamCall(
  connection: Connection,
  method: DescMethod,
  requests: Fields | AsyncIterable<Fields>,
  options: CallOptions,
): AsyncIterable<Message> {
  const opened = openStream(connection, method, requests, options);
  opened.catch(() => undefined); // Whoever iterates sees it; nobody may.
  return { [Symbol.asyncIterator]: () => lazily(opened) };
}

function lazily(opened: Promise<MessageQueue<Message>>): AsyncIterator<Message> {
  let queue: MessageQueue<Message> | undefined;
  return {
    next: () => queue?.next() ?? opened.then((q) => (queue = q).next()),
    return: () => opened.then((q) => q.return()),
  };
}

async function openStream(
  connection: Connection,
  method: DescMethod,
  requests: Fields | AsyncIterable<Fields>,
  options: CallOptions,
): Promise<MessageQueue<Message>> {
  const startedAt = performance.now();
  await connected(connection, options);
  const deadlineMs =
    options.deadlineMs === undefined ? undefined : options.deadlineMs - (performance.now() - startedAt);
  const bidi = method.methodKind === "bidi_streaming";
  const wire = [pathOf(method), serializer(method.input), deserializer(method.output)] as const;
  const call = bidi
    ? connection.client.makeBidiStreamRequest(...wire, waiting(), callOptions(deadlineMs))
    : connection.client.makeServerStreamRequest(
        ...wire,
        create(method.input, requests as Fields),
        waiting(),
        callOptions(deadlineMs),
      );
  track(connection, call);
  const queue = readStream(connection, method, call, options.signal);
  if (bidi) sendAll(call as ClientDuplexStream<Message, Message>, method, requests as AsyncIterable<Fields>, queue);
  return queue;
}

type ReadableCall = ClientReadableStream<Message> | ClientDuplexStream<Message, Message>;

function readStream(
  connection: Connection,
  method: DescMethod,
  call: ReadableCall,
  signal: AbortSignal | undefined,
): MessageQueue<Message> {
  const cancel = (): void => {
    call.cancel();
  };
  const queue = new MessageQueue<Message>(call, cancel);
  call.on("error", (error: ServiceError) => {
    const reason = toError(connection, method, error, signal);
    if (signal?.aborted) queue.finish({ error: reason, drop: true });
    else queue.fail(reason);
  });
  call.on("status", () => signal?.removeEventListener("abort", cancel));
  if (signal?.aborted) cancel();
  else signal?.addEventListener("abort", cancel, { once: true });
  return queue;
}

function sendAll(
  call: ClientDuplexStream<Message, Message>,
  method: DescMethod,
  requests: AsyncIterable<Fields>,
  queue: MessageQueue<Message>,
): void {
  const ended = new AbortController();
  call.on("status", () => {
    ended.abort();
  });
  send(call, method, requests, ended.signal).catch((error: unknown) => {
    queue.finish({ error: error as Error, drop: true });
    call.cancel();
  });
}

/** Writes at the server's pace. Once the call has ended, the source is told to return and is not waited for. */
async function send(
  call: ClientDuplexStream<Message, Message>,
  method: DescMethod,
  requests: AsyncIterable<Fields>,
  ended: AbortSignal,
): Promise<void> {
  const iterator = requests[Symbol.asyncIterator]();
  const stop = (): void => {
    iterator.return?.().catch(() => undefined); // The source's own clean-up failed after the call: nobody waits for it.
  };
  ended.addEventListener("abort", stop, { once: true });
  if (ended.aborted) stop();
  while (!ended.aborted) {
    const result = await iterator.next();
    if (result.done === true || ended.aborted) break;
    if (!call.write(create(method.input, result.value))) await drained(call, ended);
  }
  ended.removeEventListener("abort", stop);
  if (!ended.aborted) call.end();
}

function withCancel<T>(work: Promise<T>, call: { cancel(): void }, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const cancel = (): void => {
    call.cancel();
  };
  signal.addEventListener("abort", cancel, { once: true });
  return work.finally(() => {
    signal.removeEventListener("abort", cancel);
  });
}

async function connected(connection: Connection, options: CallOptions): Promise<void> {
  const timeoutMs = Math.min(connection.connectTimeoutMs, options.deadlineMs ?? Number.POSITIVE_INFINITY);
  if (connection.client.getChannel().getConnectivityState(false) === connectivityState.READY) return;
  const ready = new Promise<void>((resolve, reject) => {
    connection.client.waitForReady(Date.now() + timeoutMs, (error) => {
      if (error === undefined) resolve();
      else reject(unreachable(connection, timeoutMs, error));
    });
  });
  await raceSignal(ready, options.signal);
}

function unreachable({ address }: Connection, waitedMs: number, cause: unknown): WhetstoneError {
  return new WhetstoneError("UNAVAILABLE", `cannot reach ${address} within ${waitedMs} ms`, {
    retry: "safe",
    context: { address },
    cause,
  });
}

function toError(
  connection: Connection,
  method: DescMethod,
  error: ServiceError,
  signal: AbortSignal | undefined,
): Error {
  if (signal?.aborted && error.code === status.CANCELLED) return abortReason(signal);
  const state = connection.client.getChannel().getConnectivityState(false);
  const expired = error.code === status.DEADLINE_EXCEEDED;
  if (expired && state !== connectivityState.READY && state !== connectivityState.IDLE) {
    return new WhetstoneError("UNAVAILABLE", `cannot reach ${connection.address} before the deadline`, {
      context: { address: connection.address },
      cause: error,
    });
  }
  return fromStatus(error, { method: `${method.parent.typeName}/${method.name}`, address: connection.address });
}

/** A call is sent once there is a connection. @param waitForReady  false: it fails where none can be made now */
function waiting(waitForReady = true): Metadata {
  return new Metadata({ waitForReady });
}

function callOptions(deadlineMs: number | undefined): GrpcCallOptions {
  return deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
}

// SPDX-License-Identifier: Apache-2.0
import { create, type DescMethod } from "@bufbuild/protobuf";
import {
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type ServerDuplexStream,
  type ServerWritableStream,
  status,
  type UntypedHandleCall,
} from "@grpc/grpc-js";
import { abortReason, isAbort, WhetstoneError } from "@whetstone/core";
import { isUnexpected, toStatus } from "./error-mapping.ts";
import { drained, MessageQueue } from "./message-queue.ts";
import { notSpoken, Undecodable } from "./wire.ts";
import type { CallScope, OpenCall } from "./call-scope.ts";

// C1: a call ends exactly once, by its handler or by its signal, whichever is first. C2: when the signal ends it, the
// handler's generator is returned and its queue of requests fails, so that `finally` blocks run.

type Message = Record<string, unknown>;
type UnaryFn = (request: Message, context: OpenCall["context"]) => Promise<Message>;
type StreamFn = (request: unknown, context: OpenCall["context"]) => AsyncIterable<Message>;

/** Turns a handler into what grpc-js calls. */
export function adapt(method: DescMethod, handler: unknown, scope: CallScope): UntypedHandleCall {
  switch (method.methodKind) {
    case "unary":
      return unary(method, handler as UnaryFn, scope);
    case "client_streaming":
      throw notSpoken(method);
    case "server_streaming":
      return serverStreaming(method, handler as StreamFn, scope);
    case "bidi_streaming":
      return bidiStreaming(method, handler as StreamFn, scope);
  }
}

function unary(method: DescMethod, handler: UnaryFn, scope: CallScope): handleUnaryCall<Message, Message> {
  return (call, callback) => {
    const open = scope.open(call, method);
    settle(open, async () => handler(decoded(call.request), open.context)).then(
      (response) => {
        callback(null, create(method.output, response));
      },
      (error: unknown) => {
        callback(toStatus(error));
      },
    );
  };
}

/** The handler's outcome, or the signal's reason if that comes first (C1). */
function settle(open: OpenCall, run: () => Promise<Message>): Promise<Message> {
  const { promise, resolve, reject } = Promise.withResolvers<Message>();
  const { signal } = open.context;
  const onAbort = (): void => {
    reject(abortReason(signal));
  };
  signal.addEventListener("abort", onAbort, { once: true });
  run().then(resolve, reject);
  return promise.then(
    (response) => {
      open.close(status.OK);
      return response;
    },
    (error: unknown) => {
      throw report(error, open);
    },
  );
}

function serverStreaming(
  method: DescMethod,
  handler: StreamFn,
  scope: CallScope,
): handleServerStreamingCall<Message, Message> {
  return (call) => {
    const open = scope.open(call, method);
    void pump(call, method, open, () => handler(decoded(call.request), open.context));
  };
}

function decoded(request: Message | Undecodable): Message {
  if (!(request instanceof Undecodable)) return request;
  throw new WhetstoneError("INVALID_ARGUMENT", `the request cannot be decoded: ${request.reason}`);
}

function bidiStreaming(
  method: DescMethod,
  handler: StreamFn,
  scope: CallScope,
): handleBidiStreamingCall<Message, Message> {
  return (call) => {
    const open = scope.open(call, method);
    const requests = requestQueue(call, open);
    void pump(call, method, open, () => handler(requests, open.context));
  };
}

function requestQueue(call: ServerDuplexStream<Message, Message>, open: OpenCall): MessageQueue<Message> {
  const queue = new MessageQueue<Message>(call);
  const { signal } = open.context;
  signal.addEventListener("abort", () => {
    queue.finish({ error: abortReason(signal), drop: true });
  });
  return queue;
}

type Writable = ServerWritableStream<Message, Message> | ServerDuplexStream<Message, Message>;

async function pump(
  call: Writable,
  method: DescMethod,
  open: OpenCall,
  start: () => AsyncIterable<Message>,
): Promise<void> {
  const { signal } = open.context;
  let iterator: AsyncIterator<Message> | undefined;
  const stop = (): void => {
    finishStream(call, open, abortReason(signal));
    iterator?.return?.().catch(() => undefined); // C2; an error while unwinding a cancelled call has no reader.
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    iterator = start()[Symbol.asyncIterator]();
    while (!open.closed) {
      const result = await iterator.next();
      if (result.done === true) break;
      if (!open.closed && !call.write(create(method.output, result.value))) await drained(call, signal);
    }
    finishStream(call, open);
  } catch (error) {
    finishStream(call, open, error);
  }
}

function finishStream(call: Writable, open: OpenCall, error?: unknown): void {
  if (open.closed) return;
  if (error === undefined) {
    open.close(status.OK);
    call.end();
  } else {
    call.emit("error", toStatus(report(error, open))); // How grpc-js ends a stream with a status.
  }
}

/** Closes the call and logs what the caller will not see. */
function report(error: unknown, open: OpenCall): unknown {
  open.close(toStatus(error).code);
  if (isUnexpected(error)) open.context.logger.error("rpc_failed", { error });
  else if (!isAbort(error)) open.context.logger.debug("rpc_refused", { error: WhetstoneError.from(error) });
  return error;
}

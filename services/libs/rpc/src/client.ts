// SPDX-License-Identifier: Apache-2.0
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { type ChannelCredentials, Client, credentials as grpcCredentials } from "@grpc/grpc-js";
import { clientStream, type Connection, type Fields, streamCall, unaryCall } from "./client-calls.ts";
import type { CallOptions, ServiceClient } from "./types.ts";
import { CHANNEL_OPTIONS } from "./wire.ts";

export interface ClientOptions {
  /** Of unary calls that give none; default 30,000. */
  readonly deadlineMs?: number | undefined;
  /** How long a stream waits for the connection; default 30,000. Unary calls wait within their deadline. */
  readonly connectTimeoutMs?: number | undefined;
  /** Sent with every call. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly credentials?: ChannelCredentials | undefined;
}

/** Disposing closes the connection; calls in progress end with CANCELLED. */
export type RpcClient<S extends DescService> = ServiceClient<S> & AsyncDisposable;

const RECONNECT = {
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.min_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 5_000,
  "grpc.use_local_subchannel_pool": 1,
};

/** A typed client. It connects at the first call, waits for the server with back-off, and reconnects by itself. */
export function createClient<S extends DescService>(
  service: S,
  address: string,
  options: ClientOptions = {},
): RpcClient<S> {
  const client = new Client(address, options.credentials ?? grpcCredentials.createInsecure(), {
    ...CHANNEL_OPTIONS,
    ...RECONNECT,
  });
  const connection: Connection = {
    client,
    address,
    deadlineMs: options.deadlineMs ?? 30_000,
    connectTimeoutMs: options.connectTimeoutMs ?? 30_000,
    metadata: options.metadata ?? {},
    calls: new Set(),
  };
  const methods = service.methods.map((method) => [method.localName, bindMethod(connection, method)]);
  return {
    ...Object.fromEntries(methods),
    [Symbol.asyncDispose]: () => {
      for (const call of connection.calls) call.cancel();
      client.close();
      return Promise.resolve();
    },
  } as RpcClient<S>;
}

function bindMethod(connection: Connection, method: DescMethod): unknown {
  switch (method.methodKind) {
    case "unary":
      return (request: Fields, options: CallOptions = {}) => unaryCall(connection, method, request, options);
    case "client_streaming":
      return (requests: AsyncIterable<Fields>, options: CallOptions = {}) =>
        clientStream(connection, method, requests, options);
    case "server_streaming":
    case "bidi_streaming":
      return (requests: Fields | AsyncIterable<Fields>, options: CallOptions = {}) =>
        streamCall(connection, method, requests, options);
  }
}

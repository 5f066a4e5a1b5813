// SPDX-License-Identifier: Apache-2.0
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Client, credentials } from "@grpc/grpc-js";
import type { TlsPeer } from "@whetstone/tls";
import { limitAttempts } from "./connect-limit.ts";
import { type Connection, type Fields, streamCall, unaryCall } from "./client-calls.ts";
import { channelCredentials } from "./secure.ts";
import type { CallOptions, ServiceClient } from "./types.ts";
import { CHANNEL_OPTIONS, notSpoken } from "./wire.ts";

export interface ClientOptions {
  /** Of unary calls that give none; default 30,000. */
  readonly deadlineMs?: number | undefined;
  /** How long a stream waits for the connection; default 30,000. Unary calls wait within their deadline. */
  readonly connectTimeoutMs?: number | undefined;
  /** Of one attempt to connect, after which the address is looked up again; default 5,000. */
  readonly attemptTimeoutMs?: number | undefined;
  /** Whom we mean to reach, and who we are: `identity.to("trainer")`. Default: plain text. */
  readonly tls?: TlsPeer | undefined;
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
  const unlimit = limitAttempts(address, options.attemptTimeoutMs ?? 5_000);
  const client = new Client(address, options.tls ? channelCredentials(options.tls) : credentials.createInsecure(), {
    ...CHANNEL_OPTIONS,
    ...RECONNECT,
    ...(options.tls && { "grpc.ssl_target_name_override": options.tls.serverName }),
  });
  const connection: Connection = {
    client,
    address,
    deadlineMs: options.deadlineMs ?? 30_000,
    connectTimeoutMs: options.connectTimeoutMs ?? 30_000,
    calls: new Set(),
  };
  const methods = service.methods.map((method) => [method.localName, bindMethod(connection, method)]);
  return {
    ...Object.fromEntries(methods),
    [Symbol.asyncDispose]: () => {
      for (const call of connection.calls) call.cancel();
      client.close();
      unlimit();
      return Promise.resolve();
    },
  } as RpcClient<S>;
}

function bindMethod(connection: Connection, method: DescMethod): unknown {
  switch (method.methodKind) {
    case "unary":
      return (request: Fields, options: CallOptions = {}) => unaryCall(connection, method, request, options);
    case "client_streaming":
      throw notSpoken(method);
    case "server_streaming":
    case "bidi_streaming":
      return (requests: Fields | AsyncIterable<Fields>, options: CallOptions = {}) =>
        streamCall(connection, method, requests, options);
  }
}

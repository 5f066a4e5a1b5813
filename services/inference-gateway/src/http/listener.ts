// SPDX-License-Identifier: Apache-2.0
import type { Server } from "node:http";
import type { Socket } from "node:net";
import Fastify from "fastify";
import type { FastifyHttpOptions, FastifyInstance } from "fastify";
import { ApiError } from "../completion/api-error.ts";
import { wireError } from "../dialects/openai-error.ts";
import type { Secured } from "./https.ts";
import { sendError } from "./send.ts";

/** What bounds whoever connects; the same at each port. */
export interface ListenerBounds {
  readonly maxBodyBytes: number;
  /** From a connection's first byte to a request's last, milliseconds. */
  readonly receiveTimeoutMs: number;
  readonly maxConnections: number;
}

/** A server without routes. @param secured  absent: plain text */
export function createListener(
  bounds: ListenerBounds,
  secured: Secured | undefined,
  logError: (event: string, error: unknown) => void,
): FastifyInstance {
  // Bodies are parsed by hand and nothing is validated or serialised by schema: that is what costs in fastify.
  // The server must not be the first to close an idle connection: a request may be on its way.
  const connections = { forceCloseConnections: true, keepAliveTimeout: 75_000 };
  const { maxBodyBytes: bodyLimit, receiveTimeoutMs } = bounds;
  const receiving = receiveTimeouts(receiveTimeoutMs);
  const transport = secured ? { https: { ...secured.options(), ...receiving } } : { http: receiving };
  const timeouts = { requestTimeout: receiveTimeoutMs, clientErrorHandler: refuseConnection };
  const server = Fastify({
    logger: false,
    bodyLimit,
    ...connections,
    ...timeouts,
    ...transport,
  } as FastifyHttpOptions<Server>);
  server.server.maxConnections = bounds.maxConnections;
  secured?.watch(server);
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => {
    done(null, body);
  });
  server.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof ApiError)) logError("request_failed", error);
    reply.hijack();
    sendError(reply.raw, error);
  });
  server.setNotFoundHandler((request) => {
    throw new ApiError(
      "NOT_FOUND",
      "unknown_route",
      `no such route: ${request.method} ${request.url.split("?")[0] ?? ""}`,
    );
  });
  return server;
}

/** Whoever sends half a request, or half a handshake, is answered 408 and dropped; nothing bounds how long answers take. */
function receiveTimeouts(ms: number): object {
  return {
    headersTimeout: ms,
    requestTimeout: ms,
    handshakeTimeout: ms,
    connectionsCheckingInterval: Math.min(ms, CHECK_CONNECTIONS_MS),
  };
}

const CHECK_CONNECTIONS_MS = 5_000;

/** What came was no request, or not all of one. */
function refuseConnection(error: Error & { code?: string }, socket: Socket): void {
  const late = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
  const refusal = late
    ? new ApiError("DEADLINE_EXCEEDED", "request_timeout", "the request did not come in whole within the time", {
        status: 408,
      })
    : new ApiError("INVALID_ARGUMENT", "bad_request", "this is no HTTP request");
  const body = JSON.stringify(wireError(refusal).body);
  const head = `HTTP/1.1 ${late ? "408 Request Timeout" : "400 Bad Request"}\r\ncontent-type: application/json`;
  const size = String(Buffer.byteLength(body));
  if (socket.writable) socket.end(`${head}\r\ncontent-length: ${size}\r\nconnection: close\r\n\r\n${body}`);
  socket.destroySoon();
}

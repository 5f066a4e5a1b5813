// SPDX-License-Identifier: Apache-2.0
import { type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import Fastify from "fastify";
import type { FastifyHttpOptions, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../completion/api-error.ts";
import type { ErrorForm } from "../dialects/dialect.ts";
import type { Secured } from "./https.ts";
import { sendError, toApiError } from "./send.ts";

/** What bounds whoever connects; the same at each port. */
export interface ListenerBounds {
  readonly maxBodyBytes: number;
  /** From a connection's first byte to a request's last, milliseconds. */
  readonly receiveTimeoutMs: number;
  readonly maxConnections: number;
}

interface ErrorOptions {
  readonly logError: (event: string, error: unknown) => void;
  /** In whose words an error is told, by the path that was asked for. */
  readonly formOf: (path: string) => ErrorForm;
}

/** A server without routes. @param secured  absent: plain text */
export function createListener(
  bounds: ListenerBounds,
  secured: Secured | undefined,
  { logError, formOf }: ErrorOptions,
): FastifyInstance {
  // Bodies are parsed by hand and nothing is validated or serialised by schema: that is what costs in fastify.
  // The server must not be the first to close an idle connection: a request may be on its way.
  const connections = { forceCloseConnections: true, keepAliveTimeout: 75_000 };
  const { maxBodyBytes: bodyLimit, receiveTimeoutMs } = bounds;
  const receiving = receiveTimeouts(receiveTimeoutMs);
  const transport = secured ? { https: { ...secured.options(), ...receiving } } : { http: receiving };
  const clientErrorHandler = (error: ConnectionError, socket: Socket): void => {
    refuseConnection(error, socket, formOf);
  };
  const timeouts = { requestTimeout: receiveTimeoutMs, clientErrorHandler };
  const refuse = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    reply.hijack();
    sendError(reply.raw, error, formOf(pathOf(request)));
  };
  const options = { logger: false, bodyLimit, frameworkErrors: refuse, ...connections, ...timeouts, ...transport };
  const server = Fastify(options as FastifyHttpOptions<Server>);
  server.server.maxConnections = bounds.maxConnections;
  secured?.watch(server);
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => {
    done(null, body);
  });
  server.setErrorHandler((error, request, reply) => {
    // What is the client's own fault, fastify's refusals too, is answered and is no error of ours.
    if (toApiError(error).code === "INTERNAL") logError("request_failed", error);
    refuse(error, request, reply);
  });
  server.setNotFoundHandler((request) => {
    throw new ApiError("NOT_FOUND", "unknown_route", `no such route: ${request.method} ${pathOf(request)}`);
  });
  return server;
}

function pathOf({ url }: FastifyRequest): string {
  return url.split("?")[0] ?? "";
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

/** What came was no request, or not all of one. Whose words it is answered in is known where its first line came whole. */
function refuseConnection(error: ConnectionError, socket: Socket, formOf: ErrorOptions["formOf"]): void {
  const { rawPacket: packet } = error;
  const start = Buffer.isBuffer(packet) ? packet.toString("latin1", 0, MAX_LINE_BYTES) : "";
  const path = /^[A-Z]+ ([^ ?]+)/.exec(start)?.[1];
  const { status, body } = formOf(path ?? "")(refusalOf(error));
  const text = JSON.stringify(body);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Bad Request"}\r\ncontent-type: application/json`;
  const size = String(Buffer.byteLength(text));
  if (socket.writable) socket.end(`${head}\r\ncontent-length: ${size}\r\nconnection: close\r\n\r\n${text}`);
  socket.destroySoon();
}

type ConnectionError = Error & { readonly code?: string; readonly rawPacket?: unknown };

const MAX_LINE_BYTES = 1_024;

function refusalOf({ code }: ConnectionError): ApiError {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return refused("request_timeout", "the request did not come in whole within the time", 408);
    case "HPE_HEADER_OVERFLOW":
      return refused("headers_too_large", "the headers are too long", 431);
    default:
      return refused("bad_request", "this is no HTTP request", 400);
  }
}

function refused(reason: string, message: string, status: number): ApiError {
  return new ApiError(status === 408 ? "DEADLINE_EXCEEDED" : "INVALID_ARGUMENT", reason, message, { status });
}

// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import Fastify from "fastify";
import type { FastifyHttpOptions, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Role, TlsIdentity } from "@whetstone/tls";
import { admit, httpsOptions } from "./https.ts";
import { ApiError } from "../completion/api-error.ts";
import { parseMessages } from "../dialects/openai-chat/messages.ts";
import { DIALECTS } from "../dialects/index.ts";
import { wireError } from "../dialects/openai-error.ts";
import { parseTools } from "../dialects/read-tools.ts";
import { parseFields, parseModel } from "../dialects/read-fields.ts";
import { renderDemonstration } from "../sessions/demonstration.ts";
import { encodeCallTree } from "../sessions/call-tree.ts";
import { Exchange } from "./exchange.ts";
import { codecOf, openNamed, parseJsonBody } from "./http-context.ts";
import type { HttpContext, SessionParams } from "./http-context.ts";
import { parseTerms } from "./parse-terms.ts";
import { sendError } from "./send.ts";

export interface HttpServerOptions {
  /** Callers must then prove one of CALLERS. */
  readonly tls?: TlsIdentity | undefined;
  readonly maxBodyBytes: number;
  /** From a connection's first byte to a request's last, milliseconds. */
  readonly receiveTimeoutMs: number;
  readonly maxConnections: number;
  readonly idPrefix: string;
}

const CALLERS: readonly Role[] = ["orchestrator", "client", "console"];

/** The interface for agents. */
export function createHttpServer(context: HttpContext, options: HttpServerOptions): FastifyInstance {
  // Bodies are parsed by hand and nothing is validated or serialised by schema: that is what costs in fastify.
  // The server must not be the first to close an idle connection: a request may be on its way.
  const connections = { forceCloseConnections: true, keepAliveTimeout: 75_000 };
  const { tls, maxBodyBytes: bodyLimit } = options;
  const receiving = receiveTimeouts(options.receiveTimeoutMs);
  const transport = tls ? { https: { ...httpsOptions(tls), ...receiving } } : { http: receiving };
  const timeouts = { requestTimeout: options.receiveTimeoutMs, clientErrorHandler: refuseConnection };
  const server = Fastify({
    logger: false,
    bodyLimit,
    ...connections,
    ...timeouts,
    ...transport,
  } as FastifyHttpOptions<Server>);
  server.server.maxConnections = options.maxConnections;
  if (tls) admit(server, tls, CALLERS);
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => {
    done(null, body);
  });
  server.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof ApiError)) context.logError("request_failed", error);
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
  addAgentRoutes(server, context, options.idPrefix);
  addSessionRoutes(server, context);
  addServiceRoutes(server, context);
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

function addAgentRoutes(server: FastifyInstance, context: HttpContext, idPrefix: string): void {
  const exchanges = DIALECTS.map((dialect) => new Exchange(context, dialect, idPrefix));
  for (const prefix of ["", "/s/:session"]) {
    for (const exchange of exchanges) {
      server.post(`${prefix}${exchange.path}`, (request, reply) => exchange.handle(request, reply));
    }
    // Anthropic's programs look first whether anybody is there.
    server.head(prefix === "" ? "/" : prefix, (_request, reply) => reply.code(200).send());
    server.get(`${prefix}/v1/models`, () => ({ object: "list", data: models(context) }));
    server.get(`${prefix}/v1/models/:model`, (request) => oneModel(context, (request.params as ModelParams).model));
  }
}

type ModelParams = { model: string };

interface Model {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  readonly max_model_len: number | null;
}

function models({ chat }: HttpContext): Model[] {
  return [...chat.codecs.keys()].map((id) => {
    const length = chat.fleet.contextOf(id);
    return { id, object: "model", created: 0, owned_by: "whetstone", max_model_len: length > 0 ? length : null };
  });
}

function oneModel(context: HttpContext, id: string): Model {
  const model = models(context).find((one) => one.id === id);
  if (model === undefined) throw context.chat.fleet.unknownPolicy(id);
  return model;
}

function addSessionRoutes(server: FastifyInstance, context: HttpContext): void {
  server.get("/s/:session/calls", (request, reply) => sendCalls(context, request, reply));
  server.delete("/s/:session", (request, reply) => {
    context.sessions.delete((request.params as SessionParams).session ?? "");
    return reply.code(204).send();
  });
  server.post("/s/:session/key", (request, reply) => sendKey(context, request, reply));
  server.post("/s/:session/render", (request, reply) => sendRendered(context, request, reply));
}

/** For an agent with a client of its own; with the sampling of its episode. It is good until the session is closed, or has been idle too long. */
function sendKey(context: HttpContext, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { sessions, chat } = context;
  const terms = parseTerms(context, request);
  const session = openNamed(sessions, (request.params as SessionParams).session ?? "", chat.now());
  if (terms !== undefined) session.terms = terms;
  const key = sessions.issueKey(session.name, chat.now(), () => `ws-${randomBytes(24).toString("base64url")}`);
  return reply.code(201).send({ key });
}

/** A session nobody has used has no calls: that is an answer, not an error. `close=true` also drops it. */
function sendCalls(context: HttpContext, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const name = (request.params as SessionParams).session ?? "";
  const tree = encodeCallTree(name, context.sessions.get(name)?.calls ?? [], request.headers.accept);
  if ((request.query as { close?: string }).close === "true") context.sessions.delete(name);
  return reply.type(tree.contentType).send(tree.body);
}

/** The calls that would have sampled a given conversation. Keeps nothing. */
async function sendRendered(context: HttpContext, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const fields = parseFields(parseJsonBody(context, request));
  const model = parseModel(fields);
  const codec = codecOf(context, model);
  const tools = parseTools(fields["tools"]);
  const calls = await renderDemonstration(
    { policy: model, messages: parseMessages(fields["messages"]), tools },
    codec,
    context.chat.now(),
    setImmediate,
  );
  const tree = encodeCallTree((request.params as SessionParams).session ?? "", calls, request.headers.accept);
  return reply.type(tree.contentType).send(tree.body);
}

function addServiceRoutes(server: FastifyInstance, context: HttpContext): void {
  server.get("/healthz", () => ({ status: "ok" }));
  server.get("/load", () => context.load.report());
  server.get("/metrics", async (_request, reply) =>
    reply.type(context.metrics.contentType).send(await context.metrics.render()),
  );
}

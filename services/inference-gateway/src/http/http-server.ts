// SPDX-License-Identifier: Apache-2.0
import { withoutImages } from "../completion/images.ts";
import { randomBytes } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Role, TlsIdentity } from "@whetstone/tls";
import { rolesOnly } from "./https.ts";
import { parseMessages } from "../dialects/openai-chat/messages.ts";
import { parseTools } from "../dialects/read-tools.ts";
import { parseFields, parseModel } from "../dialects/read-fields.ts";
import { renderDemonstration } from "../sessions/demonstration.ts";
import { encodeCallTree } from "../sessions/call-tree.ts";
import { errorFormAt, type Exchange } from "./exchange.ts";
import { codecOf, KEY_PREFIX, openNamed, openSession, parseJsonBody } from "./http-context.ts";
import type { HttpContext, SessionParams } from "./http-context.ts";
import { addHandoverRoutes } from "./handover-routes.ts";
import type { ReceivedSessions } from "../handover/received-sessions.ts";
import { wireError } from "../dialects/openai-error.ts";
import { createListener, type ListenerBounds } from "./listener.ts";
import { addModelRoutes } from "./model-routes.ts";
import { parseTerms } from "./parse-terms.ts";
import { sessionFirst } from "./session-first.ts";

export interface HttpServerOptions extends ListenerBounds {
  /** Callers must then prove one of CALLERS. */
  readonly tls?: TlsIdentity | undefined;
}

/** What other replicas hand over, and where agents reach this one. */
export interface HandoverOptions {
  readonly received: ReceivedSessions;
  readonly agentsUrl: string | undefined;
}

const CALLERS: readonly Role[] = ["orchestrator", "client", "console", "gateway"];

/** The interface for our own services: they name a session by its path, issue keys, and take what was recorded. */
export function createHttpServer(
  context: HttpContext,
  exchanges: readonly Exchange[],
  { tls, handover, ...bounds }: HttpServerOptions & { readonly handover: HandoverOptions },
): FastifyInstance {
  const server = createListener(bounds, tls && rolesOnly(tls, CALLERS), { ...context, formOf: errorFormAt(exchanges) });
  addAgentRoutes(server, context, exchanges);
  addSessionRoutes(server, context);
  addServiceRoutes(server, context);
  addHandoverRoutes(server, { ...handover, secured: tls !== undefined });
  return server;
}

function addAgentRoutes(server: FastifyInstance, context: HttpContext, exchanges: readonly Exchange[]): void {
  for (const prefix of ["", "/s/:session"]) {
    for (const exchange of exchanges) {
      const onRequest = sessionFirst(context, "url", exchange.error);
      server.post(`${prefix}${exchange.path}`, { onRequest }, (request, reply) =>
        exchange.handle(request, reply, openSession),
      );
    }
    // Anthropic's programs look first whether anybody is there.
    server.head(prefix === "" ? "/" : prefix, (_request, reply) => reply.code(200).send());
    // Whoever comes to this port sees all policies.
    addModelRoutes(server, context, { prefix, accessOf: () => ({}) });
  }
}

function addSessionRoutes(server: FastifyInstance, context: HttpContext): void {
  const onRequest = sessionFirst(context, "url", wireError);
  server.get("/s/:session/calls", { onRequest }, (request, reply) => sendCalls(context, request, reply));
  // Whoever looks for a session asks each replica: one that has given it away does not have it.
  server.get("/s/:session", { exposeHeadRoute: false }, (request, reply) => {
    const session = context.sessions.get((request.params as SessionParams).session ?? "");
    return reply.code(session === undefined ? 404 : 200).send({ here: session !== undefined });
  });
  server.delete("/s/:session", { onRequest }, (request, reply) => {
    context.sessions.delete((request.params as SessionParams).session ?? "");
    return reply.code(204).send();
  });
  server.post("/s/:session/key", { onRequest }, (request, reply) => sendKey(context, request, reply));
  server.post("/s/:session/render", (request, reply) => sendRendered(context, request, reply));
}

/** For an agent with a client of its own; with the sampling of its episode. It is good until the session is closed, or has been idle too long. */
function sendKey(context: HttpContext, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { sessions, chat } = context;
  const terms = parseTerms(context, request);
  const session = openNamed(sessions, (request.params as SessionParams).session ?? "", chat.now());
  if (terms !== undefined) session.terms = terms;
  const prefix = context.peers?.keyPrefix ?? KEY_PREFIX;
  const random = (): string => prefix + randomBytes(24).toString("base64url");
  const key = sessions.issueKey(session.name, chat.now(), random);
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
    {
      policy: model,
      messages: withoutImages(parseMessages(fields["messages"]), "nothing can be trained on images"),
      tools,
    },
    codec,
    context.chat.now(),
    setImmediate,
  );
  const tree = encodeCallTree((request.params as SessionParams).session ?? "", calls, request.headers.accept);
  return reply.type(tree.contentType).send(tree.body);
}

function addServiceRoutes(server: FastifyInstance, context: HttpContext): void {
  server.get("/healthz", (_request, reply) =>
    context.sessions.isLeaving ? reply.code(503).send({ status: "leaving" }) : { status: "ok" },
  );
  server.get("/load", () => context.load.report());
  server.get("/metrics", async (_request, reply) =>
    reply.type(context.metrics.contentType).send(await context.metrics.render()),
  );
}

// SPDX-License-Identifier: Apache-2.0
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import type { ErrorForm } from "../dialects/dialect.ts";
import { wireError } from "../dialects/openai-error.ts";
import { errorFormAt, type Exchange } from "./exchange.ts";
import { type HttpContext, keyOf, openKeyed } from "./http-context.ts";
import type { HttpServerOptions } from "./http-server.ts";
import { addFeedbackRoute } from "./feedback-route.ts";
import { serverOnly } from "./https.ts";
import { createListener } from "./listener.ts";
import { addModelRoutes } from "./model-routes.ts";
import { sendError } from "./send.ts";
import { sessionFirst } from "./session-first.ts";

/**
 * The interface for programs that are not ours, wherever they run: the dialects and the list of models, each request with the
 * key of an episode that plays, or of a served name. They need no certificate, and find no sessions, no keys, no figures here.
 */
export function createAgentsServer(
  context: HttpContext,
  exchanges: readonly Exchange[],
  { tls, ...bounds }: HttpServerOptions,
): FastifyInstance {
  const server = createListener(bounds, tls && serverOnly(tls), { ...context, formOf: errorFormAt(exchanges) });
  for (const exchange of exchanges) {
    const onRequest = [sessionFirst(context, "agentsUrl", exchange.error), keyFirst(context, exchange.error)];
    server.post(exchange.path, { onRequest }, (request, reply) => exchange.handle(request, reply, openKeyed));
  }
  addFeedbackRoute(server, context, keyFirst(context, wireError));
  // Anthropic's programs look first whether anybody is there.
  server.head("/", (_request, reply) => reply.code(200).send());
  const onRequest = [sessionFirst(context, "agentsUrl", wireError), keyFirst(context, wireError)];
  addModelRoutes(server, context, { accessOf: openKeyed, onRequest });
  return server;
}

/** Before the body is read: strangers cannot make us hold one. */
function keyFirst(context: HttpContext, form: ErrorForm): onRequestHookHandler {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    try {
      openKeyed(context, request);
    } catch (error) {
      reply.hijack();
      void elsewhere(context, { request, reply }, error).catch((refused: unknown) => {
        sendError(reply.raw, refused, form);
      });
      return;
    }
    done();
  };
}

/** Another replica may have the key's session. @throws `refusal` where none has, ApiError 503 where it is gone */
async function elsewhere(
  { peers }: HttpContext,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
  refusal: unknown,
): Promise<void> {
  const key = keyOf(request);
  const holder = key === undefined ? undefined : await peers?.holderOf(key, request);
  if (peers === undefined || key === undefined || holder === undefined) throw refusal;
  await peers.relay(key, holder, request, reply);
}

// SPDX-License-Identifier: Apache-2.0
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import { ApiError } from "../completion/api-error.ts";
import type { ErrorForm } from "../dialects/dialect.ts";
import type { NewOwner, SessionTable } from "../sessions/session-table.ts";
import type { Session } from "../sessions/session.ts";
import { BEGUN, gone } from "../peers/forward.ts";
import { type HttpContext, keyOf, type SessionParams } from "./http-context.ts";
import { sendError } from "./send.ts";

/**
 * Before a request's body is read: its session stays here until it is answered; one that is on its way to another replica is
 * waited for, and one that has gone there is asked there.
 * @param port  at which port of the new owner
 */
export function sessionFirst(context: HttpContext, port: keyof NewOwner, form: ErrorForm): onRequestHookHandler {
  const { sessions } = context;
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => {
    const name = namedBy(sessions, request);
    const session = name === undefined ? undefined : sessions.get(name);
    if (session?.moving !== undefined) {
      // Again from the start: it is here still, or has gone.
      void session.moving.then(() => {
        if (!reply.raw.destroyed) sessionFirst(context, port, form).call(request.server, request, reply, done);
      });
      return;
    }
    const owner = name === undefined ? undefined : sessions.newOwnerOf(name);
    if (session !== undefined) stayUntilAnswered(session, reply);
    else if (owner !== undefined) {
      reply.hijack();
      void passOn(context, { request, reply }, owner[port]).catch((error: unknown) => {
        sendError(reply.raw, error, form);
      });
      return;
    } else if (name !== undefined && request.headers[BEGUN] !== undefined) {
      done(notHere(name));
      return;
    }
    done();
  };
}

/** By its path or by its key. A key that is not known here names nothing yet. */
function namedBy(sessions: SessionTable, request: FastifyRequest): string | undefined {
  const { session } = request.params as SessionParams;
  const key = session === undefined ? keyOf(request) : undefined;
  return session ?? (key === undefined ? undefined : sessions.nameOf(key));
}

function stayUntilAnswered(session: Session, { raw }: FastifyReply): void {
  session.begin();
  raw.once("close", () => {
    session.end();
  });
}

async function passOn(
  { forwarder }: HttpContext,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
  url: string | undefined,
): Promise<void> {
  if (url === undefined) throw gone();
  await forwarder.forward(url, request, reply, { [BEGUN]: "true" });
}

function notHere(name: string): ApiError {
  const message = `session ${name} is not here: it has ended, is at another gateway, or was lost with one`;
  return new ApiError("NOT_FOUND", "session_not_here", message);
}

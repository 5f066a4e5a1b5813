// SPDX-License-Identifier: Apache-2.0
import type { TLSSocket } from "node:tls";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { roleOf } from "@whetstone/tls";
import { ApiError } from "../completion/api-error.ts";
import type { ReceivedSessions } from "../handover/received-sessions.ts";
import { HANDOVER_PATH, MAX_STATE_BYTES } from "../handover/session-state.ts";

interface RouteOptions {
  readonly received: ReceivedSessions;
  /** This replica's port for agents, as others know it. */
  readonly agentsUrl: string | undefined;
  /** Callers prove who they are. */
  readonly secured: boolean;
}

type HandoverParams = { id: string };

/** What one replica asks another, in two steps: see ReceivedSessions. Nobody else may. */
export function addHandoverRoutes(server: FastifyInstance, { received, agentsUrl, secured }: RouteOptions): void {
  const onRequest = (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void): void => {
    done(secured && !isGateway(request) ? notAllowed() : undefined);
  };
  server.post(`${HANDOVER_PATH}/:id`, { onRequest, bodyLimit: MAX_STATE_BYTES }, (request) => {
    received.hold((request.params as HandoverParams).id, parse(request.body as string));
    return { held: true, ...(agentsUrl !== undefined && { agentsUrl }) };
  });
  server.post(`${HANDOVER_PATH}/:id/own`, { onRequest }, (request) => {
    received.own((request.params as HandoverParams).id);
    return { owned: true };
  });
}

function isGateway({ raw }: FastifyRequest): boolean {
  return roleOf((raw.socket as TLSSocket).getPeerCertificate()) === "gateway";
}

function parse(body: string | undefined): unknown {
  try {
    return JSON.parse(body ?? "");
  } catch {
    throw new ApiError("INVALID_ARGUMENT", "invalid_json", "the body is not JSON", { param: "body" });
  }
}

function notAllowed(): ApiError {
  const message = "only another gateway hands sessions over";
  return new ApiError("PERMISSION_DENIED", "not_allowed", message, { status: 403 });
}

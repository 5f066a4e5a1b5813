// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { z } from "zod";
import { type OpenEnvironmentFor, ServedAction, ServedObservation, ServedSession } from "./served-session.ts";

export interface OpenEnvServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly name: string;
  readonly description: string;
  readonly open: OpenEnvironmentFor;
  /** Connections at once; one more is told CAPACITY_REACHED. */
  readonly sessions: number;
  /** A connection that asks nothing for this long is closed. Default: 15 minutes. */
  readonly idleTimeoutMs?: number;
}

export interface OpenEnvServer extends AsyncDisposable {
  /** "http://host:port" */
  readonly url: string;
  readonly openSessions: number;
}

const MAX_MESSAGE_BYTES = 4 * 2 ** 20;
/** Asked before they are answered: a client of the protocol waits for each answer. */
const MAX_WAITING = 16;
const State = z.object({ episode_id: z.string().nullable(), step_count: z.number().int() });

/** Environments of ours for clients of OpenEnv: its WebSocket, one environment a connection, and what describes it. */
export async function startOpenEnvServer(options: OpenEnvServerOptions): Promise<OpenEnvServer> {
  const { host, port, sessions } = options;
  const described: Readonly<Record<string, unknown>> = {
    "/health": { status: "healthy" },
    "/metadata": { name: options.name, description: options.description },
    "/schema": {
      action: z.toJSONSchema(ServedAction),
      observation: z.toJSONSchema(ServedObservation),
      state: z.toJSONSchema(State),
    },
  };
  const http = createServer((request, response) => tell(described, request, response));
  const sockets = new WebSocketServer({
    server: http,
    path: "/ws",
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    verifyClient: ({ req }: { readonly req: IncomingMessage }) => isNoForeignPage(req),
  });
  const open = new Set<Promise<void>>();
  sockets.on("connection", (socket) => {
    if (open.size >= sessions) return refuse(socket, sessions);
    const served: Promise<void> = serve(socket, options).finally(() => open.delete(served));
    open.add(served);
  });
  await new Promise<void>((resolve, reject) => http.once("error", reject).listen(port, host, resolve));
  return {
    url: `http://${host}:${(http.address() as AddressInfo).port}`,
    get openSessions() {
      return open.size;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets.clients) socket.terminate();
      http.close();
      http.closeAllConnections();
      await Promise.allSettled(open);
    },
  };
}

/** Until the connection ends, however it does: then its environment is closed. */
async function serve(socket: WebSocket, { open, idleTimeoutMs = 900_000 }: OpenEnvServerOptions): Promise<void> {
  const session = new ServedSession(open);
  const idle = setTimeout(() => socket.close(1001, "nothing was asked for long"), idleTimeoutMs);
  let last: Promise<void> = Promise.resolve();
  let waiting = 0;
  const answer = async (text: string): Promise<void> => {
    const said = await session.answer(text);
    waiting -= 1;
    if (said === undefined) socket.close();
    else if (socket.readyState === socket.OPEN) socket.send(said);
    idle.refresh();
  };
  socket.on("message", (data: Buffer) => {
    idle.refresh();
    if (++waiting > MAX_WAITING) return socket.terminate();
    last = last.then(() => answer(data.toString("utf8")));
  });
  socket.on("error", () => socket.terminate());
  await new Promise((resolve) => socket.once("close", resolve));
  clearTimeout(idle);
  await session.close(); // A step that runs ends with it.
  await last;
  await session.close(); // What was asked before the end may have opened another one.
}

function refuse(socket: WebSocket, most: number): void {
  const data = { message: `all ${most} sessions are in use`, code: "CAPACITY_REACHED" };
  socket.send(JSON.stringify({ type: "error", data }), () => socket.close());
}

function tell(
  described: Readonly<Record<string, unknown>>,
  { method, url }: IncomingMessage,
  response: ServerResponse,
): void {
  const path = new URL(url ?? "/", "http://server").pathname;
  const found = method === "GET" && Object.hasOwn(described, path);
  const body = found
    ? described[path]
    : { detail: `there is ${Object.keys(described).join(", ")} and the WebSocket /ws` };
  response.writeHead(found ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** A page in somebody's browser may reach this machine; programs name no origin. */
function isNoForeignPage({ headers: { origin, host } }: IncomingMessage): boolean {
  return origin === undefined || URL.parse(origin)?.host === host;
}

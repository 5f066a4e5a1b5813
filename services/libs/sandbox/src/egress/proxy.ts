// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { WhetstoneError } from "@whetstone/core";
import { connectOut } from "./connect-out.ts";
import { splice } from "./splice.ts";

/** At once; what a sandbox opens beyond it is closed. */
const MOST_CONNECTIONS = 64;
const HTTP_PORT = 80;
const STATUS = { FAILED_PRECONDITION: 403 } as Readonly<Record<string, number>>;
/** Between two hops of HTTP/1.1 only (RFC 9110, 7.6.1). */
const OF_ONE_HOP = ["connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "upgrade"];

export interface ProxyOptions {
  /** "host:port", each of which may be connected to; compared as text, without names being looked up. */
  readonly allowed: readonly string[];
  /** The setting that names them, for refusals. */
  readonly setting: string;
}

/** An HTTP proxy that connects to what is named and to nothing else: by CONNECT, and for URLs of http. */
export function egressProxy({ allowed, setting }: ProxyOptions): Server {
  const named = new Set(allowed.map((each) => each.toLowerCase()));
  const reach = async (target: string): Promise<Duplex> => {
    if (!named.has(target.toLowerCase()))
      throw new WhetstoneError("FAILED_PRECONDITION", `${target} is not in ${setting}`);
    const [, host = "", port = ""] = /^\[?([^\]]*)\]?:(\d+)$/u.exec(target) ?? [];
    return await connectOut(host, Number(port));
  };
  const server = createServer((incoming, response) => {
    forward(incoming, response, reach).catch((error: unknown) => {
      refuse(response, error);
    });
  });
  server.on("connect", ({ url = "" }: IncomingMessage, near: Duplex, head: Buffer) => {
    near.on("error", () => undefined);
    reach(url).then(
      (far) => {
        near.write("HTTP/1.1 200 Connection Established\r\n\r\n");
        far.write(head);
        splice(near, far);
      },
      (error: unknown) => {
        const { status, message } = told(error);
        near.end(`HTTP/1.1 ${status} Refused\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n${message}\n`);
      },
    );
  });
  boundConnections(server);
  return server;
}

async function forward(
  incoming: IncomingMessage,
  response: ServerResponse,
  reach: (target: string) => Promise<Duplex>,
): Promise<void> {
  const url = URL.parse(incoming.url ?? "");
  if (url?.protocol !== "http:")
    throw new WhetstoneError("FAILED_PRECONDITION", "this proxy takes CONNECT and URLs of http");
  const far = await reach(`${url.hostname}:${url.port || HTTP_PORT}`);
  const headers = Object.fromEntries(Object.entries(incoming.headers).filter(([name]) => !OF_ONE_HOP.includes(name)));
  const sent = request({
    method: incoming.method,
    path: `${url.pathname}${url.search}`,
    headers: { ...headers, connection: "close" },
    createConnection: () => far,
  });
  sent.once("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, { ...answer.headers, connection: "close" });
    answer.pipe(response);
    answer.once("error", () => response.destroy());
  });
  sent.once("error", (error) => {
    refuse(response, error);
  });
  response.once("close", () => far.destroy());
  incoming.pipe(sent);
}

function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, message } = told(error);
  response.writeHead(status, { "content-type": "text/plain", connection: "close" }).end(`${message}\n`);
}

function told(error: unknown): { status: number; message: string } {
  const { code, message } = WhetstoneError.from(error);
  return { status: STATUS[code] ?? 502, message };
}

function boundConnections(server: Server): void {
  let open = 0;
  server.prependListener("connection", (connection: Duplex) => {
    open += 1;
    connection.once("close", () => (open -= 1));
    if (open > MOST_CONNECTIONS) connection.destroy();
  });
}

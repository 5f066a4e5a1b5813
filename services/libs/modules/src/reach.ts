// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { connect as connectTcp, createServer, type Server } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { ProcessBackend } from "@whetstone/sandbox";
import type { REACHED } from "./forward-sockets.ts";

export interface ReachOptions {
  readonly backend: ProcessBackend;
  /** A new connection to the gateway. Absent: it is not reached. */
  readonly gateway?: (() => Duplex) | undefined;
  /** "host:port", each of which may be connected to through the proxy. */
  readonly network: readonly string[];
}

/** What a job's code may connect to: sockets in a folder that its sandboxes see. */
export class Reach implements AsyncDisposable {
  readonly folder: string;
  readonly #open: AsyncDisposableStack;

  private constructor(folder: string, open: AsyncDisposableStack) {
    this.folder = folder;
    this.#open = open;
  }

  static async open({ backend, gateway, network }: ReachOptions): Promise<Reach> {
    await using opening = new AsyncDisposableStack();
    const { path } = opening.use(backend.makeFolder());
    if (gateway !== undefined) {
      const server = createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
        splice(near, gateway());
      });
      await serve(server, path, "gateway", opening);
    }
    if (network.length > 0) await serve(proxyTo(new Set(network)), path, "proxy", opening);
    return new Reach(path, opening.move());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#open.disposeAsync();
  }
}

/** By CONNECT alone: what goes through is the two ends' business. */
function proxyTo(allowed: ReadonlySet<string>): Server {
  const server = createHttpServer((_request, response) => {
    response.writeHead(405, { "content-type": "text/plain" }).end("this proxy takes CONNECT only\n");
  });
  server.on("connect", ({ url = "" }: IncomingMessage, near: Duplex) => {
    near.on("error", () => undefined);
    if (!allowed.has(url)) {
      near.end(`HTTP/1.1 403 Forbidden\r\n\r\n${url} is not in module.sandbox.network\n`);
      return;
    }
    const [host = "", port] = url.split(":");
    const far = connectTcp({ host, port: Number(port), allowHalfOpen: true });
    far.once("error", () => near.destroy());
    far.once("connect", () => {
      near.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      splice(near, far);
    });
  });
  return server;
}

/** Two ends of one connection. */
function splice(near: Duplex, far: Duplex): void {
  for (const [socket, other] of [
    [near, far],
    [far, near],
  ] as const) {
    socket.on("error", () => undefined);
    socket.once("close", () => other.destroy());
  }
  near.pipe(far).pipe(near);
}

async function serve(
  server: Server,
  folder: string,
  name: keyof typeof REACHED,
  opening: AsyncDisposableStack,
): Promise<void> {
  const sockets = new Set<Duplex>();
  server.on("connection", (socket: Duplex) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  const path = join(folder, name);
  server.listen(path);
  await once(server, "listening");
  await chmod(path, 0o666);
  opening.defer(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
}

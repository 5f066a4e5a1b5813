// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { egressProxy, forwardPorts, type ProcessSandbox, type SocketFolder } from "@whetstone/sandbox";

/** A proxy that connects to what one episode may reach, and to nothing else. */
export interface EpisodeProxy extends AsyncDisposable {
  /** As the browser reaches it: "http://127.0.0.1:20000". */
  readonly server: string;
}

/** Nobody listens there: whoever may reach nothing gets it for a proxy. */
const NOWHERE = "http://127.0.0.1:1";
const FIRST_PORT = 20_000;
const PORTS = 40_000;
const DAY_MS = 86_400_000;

/**
 * How one browser's pages leave it: by a proxy of their episode's own, and by nothing else. A sandboxed browser has no network; the
 * proxy is a socket in a folder that it sees, and a port of its own loopback leads there.
 */
export class Reach implements AsyncDisposable {
  readonly #sandbox: ProcessSandbox | undefined;
  readonly #folder: SocketFolder | undefined;
  #opened = 0;

  constructor(sandbox: ProcessSandbox | undefined, folder: SocketFolder | undefined) {
    this.#sandbox = sandbox;
    this.#folder = folder;
  }

  /** @param allowed  each "host:port". @throws SandboxError */
  async open(allowed: readonly string[]): Promise<EpisodeProxy> {
    if (allowed.length === 0) return { server: NOWHERE, [Symbol.asyncDispose]: async () => undefined };
    const proxy = egressProxy({ allowed, setting: "network" });
    const connections = new Set<Duplex>();
    proxy.on("connection", (connection: Duplex) => {
      connections.add(connection);
      connection.once("close", () => connections.delete(connection));
    });
    await using undo = new AsyncDisposableStack();
    undo.defer(async () => {
      for (const connection of connections) connection.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    });
    const port = await this.#lead(proxy, undo);
    const opened = undo.move();
    return { server: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: () => opened.disposeAsync() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#folder?.[Symbol.asyncDispose]();
  }

  async #lead(proxy: Server, undo: AsyncDisposableStack): Promise<number> {
    if (this.#sandbox === undefined || this.#folder === undefined) {
      proxy.listen(0, "127.0.0.1");
      await once(proxy, "listening");
      return (proxy.address() as AddressInfo).port;
    }
    const number = this.#opened++;
    const port = FIRST_PORT + (number % PORTS);
    const name = `proxy-${number}`;
    const path = join(this.#folder.path, name);
    proxy.listen(path);
    await once(proxy, "listening");
    await chmod(path, 0o666);
    const forwarder = await forwardPorts(this.#sandbox, { [name]: port }, DAY_MS);
    undo.defer(() => forwarder.kill());
    return port;
  }
}

// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

interface StoredLease {
  metadata: { name: string; resourceVersion?: string; labels?: Record<string, string> };
  spec?: { holderIdentity?: string; leaseTransitions?: number; renewTime?: string };
}

/** As much of an API server as one Lease needs: get, create, and change of a known version. */
export class LeaseServer implements AsyncDisposable {
  lease: StoredLease | undefined;
  /** Holder and arrival of every write that was taken. */
  readonly writes: { readonly holder: string; readonly atMs: number }[] = [];
  readonly #server: Server = createServer();
  #version = 0;

  static async start(): Promise<LeaseServer> {
    const server = new LeaseServer();
    server.#server.on("request", (request, response) => {
      void server.#answer(request).then(({ status, body }) => {
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      });
    });
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get holder(): string {
    return this.lease?.spec?.holderIdentity ?? "";
  }

  async #answer(request: IncomingMessage): Promise<{ status: number; body: unknown }> {
    if (request.method === "GET") return { status: this.lease ? 200 : 404, body: this.lease ?? {} };
    const sent = (await json(request)) as StoredLease;
    const isNew = request.method === "POST";
    if (isNew ? this.lease : this.lease?.metadata.resourceVersion !== sent.metadata.resourceVersion)
      return { status: 409, body: { reason: isNew ? "AlreadyExists" : "Conflict" } };
    const metadata = { ...this.lease?.metadata, ...sent.metadata, resourceVersion: String(++this.#version) };
    this.lease = { ...sent, metadata };
    this.writes.push({ holder: this.holder, atMs: performance.now() });
    return { status: isNew ? 201 : 200, body: this.lease };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { request } from "undici";
import { Lines, loadCredentials } from "../src/credentials.ts";

export type ProxyFault = "429" | "503" | "410" | "expired" | "hang" | "cut";

/** Between a client and the real API server; it holds the credentials, so that clients speak plain HTTP to it. */
export class FaultProxy implements AsyncDisposable {
  /** Faults that happened. */
  readonly fired = new Map<ProxyFault, number>();
  /** Requests that came, by what they asked for. */
  readonly asked = { list: 0, watch: 0, other: 0 };
  readonly #server: Server;
  readonly #lines = new Lines(loadCredentials());
  readonly #watches = new Set<ServerResponse>();
  #plan: { asked: keyof FaultProxy["asked"]; fault: ProxyFault }[] = [];
  #frozen = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<FaultProxy> {
    const server = createServer();
    const proxy = new FaultProxy(server);
    server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
      proxy.#forward(incoming, outgoing).catch(() => outgoing.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Watches that are open. */
  get watching(): number {
    return this.#watches.size;
  }

  /** The next request of this sort meets the fault instead of the server. */
  next(asked: "list" | "watch" | "other", fault: ProxyFault): void {
    this.#plan.push({ asked, fault });
  }

  /** Cuts every open watch in the middle. */
  cutWatches(): void {
    for (const watch of this.#watches) {
      this.#note("cut");
      watch.socket?.destroy();
    }
  }

  /** From now on nothing comes back and nothing is refused, as behind a dead network. */
  freeze(frozen: boolean): void {
    this.#frozen = frozen;
    if (frozen) for (const watch of this.#watches) watch.removeAllListeners("drain");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    this.#lines[Symbol.dispose]();
  }

  async #forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const asked = kindOf(incoming);
    this.asked[asked]++;
    const planned = this.#plan.findIndex((each) => each.asked === asked);
    const fault = planned === -1 ? undefined : this.#plan.splice(planned, 1)[0]?.fault;
    if (fault) this.#note(fault);
    if (fault === "hang" || this.#frozen) return;
    if (fault === "cut") return void outgoing.destroy();
    if (fault === "expired") return expired(outgoing);
    if (fault) return refuse(outgoing, Number(fault));
    await this.#pass(incoming, outgoing, asked === "watch");
  }

  async #pass(incoming: IncomingMessage, outgoing: ServerResponse, isWatch: boolean): Promise<void> {
    const { origin, headers, dispatcher } = await this.#lines.line();
    const gone = new AbortController();
    outgoing.on("close", () => gone.abort());
    if (isWatch) this.#watches.add(outgoing);
    outgoing.on("close", () => this.#watches.delete(outgoing));
    const type = incoming.headers["content-type"];
    const answer = await request(origin + (incoming.url ?? ""), {
      method: incoming.method as "GET",
      dispatcher,
      signal: gone.signal,
      bodyTimeout: 0,
      headers: { ...headers, accept: "application/json", ...(type && { "content-type": type }) },
      ...(incoming.method !== "GET" && { body: incoming }),
    });
    outgoing.writeHead(answer.statusCode, { "content-type": "application/json" });
    outgoing.flushHeaders();
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      if (!this.#frozen) outgoing.write(chunk);
    }
    if (!this.#frozen) outgoing.end();
  }

  #note(fault: ProxyFault): void {
    this.fired.set(fault, (this.fired.get(fault) ?? 0) + 1);
  }
}

function kindOf({ url = "", method }: IncomingMessage): keyof FaultProxy["asked"] {
  if (method !== "GET") return "other";
  if (url.includes("watch=true")) return "watch";
  return url.includes("limit=") ? "list" : "other";
}

function refuse(outgoing: ServerResponse, code: number): void {
  const headers = { "content-type": "application/json", ...(code === 429 && { "retry-after": "1" }) };
  outgoing
    .writeHead(code, headers)
    .end(JSON.stringify({ kind: "Status", code, reason: "Injected", message: "injected" }));
}

/** How an API server says 410 once a watch has begun. */
function expired(outgoing: ServerResponse): void {
  const object = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
  outgoing.writeHead(200).end(`${JSON.stringify({ type: "ERROR", object })}\n`);
}

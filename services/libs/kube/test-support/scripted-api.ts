// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

interface Item {
  metadata: { name: string; uid: string; resourceVersion: string; managedFields?: unknown };
  data?: Record<string, string>;
}
interface Change {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: Item;
}
export type Asked = "list" | "watch";
/** Answers one request instead of the server. */
export type Fault = (response: ServerResponse, url: URL) => void;

export interface Request {
  readonly asked: Asked;
  readonly query: URLSearchParams;
  readonly atMs: number;
}

/** As much of an API server as a reflector sees: lists with pages, watches from a version, history that is forgotten. */
export class ScriptedApi implements AsyncDisposable {
  readonly requests: Request[] = [];
  readonly #server: Server;
  readonly #items = new Map<string, Item>();
  readonly #watchers = new Set<ServerResponse>();
  readonly #faults: Record<Asked, Fault[]> = { list: [], watch: [] };
  #history: Change[] = [];
  #forgotten = 0;
  #version = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<ScriptedApi> {
    const server = createServer();
    const api = new ScriptedApi(server);
    server.on("request", (request: IncomingMessage, response: ServerResponse) => api.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return api;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get watching(): number {
    return this.#watchers.size;
  }

  count(asked: Asked): number {
    return this.requests.filter((request) => request.asked === asked).length;
  }

  put(name: string, data: Record<string, string> = {}): void {
    const former = this.#items.get(name);
    const version = ++this.#version;
    const metadata = {
      name,
      uid: former?.metadata.uid ?? `uid-${version}`,
      resourceVersion: String(version),
      managedFields: [{}],
    };
    const object = { metadata, data };
    this.#items.set(name, object);
    this.#tell({ version, type: former ? "MODIFIED" : "ADDED", object });
  }

  remove(name: string): void {
    const object = this.#items.get(name);
    if (!object) return;
    this.#items.delete(name);
    const version = ++this.#version;
    this.#tell({
      version,
      type: "DELETED",
      object: { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } },
    });
  }

  /** Other kinds go on: versions move without changes, and watchers hear it as a bookmark. */
  bookmark(): void {
    this.#version += 10;
    const object = { metadata: { resourceVersion: String(this.#version) } };
    for (const watcher of this.#watchers) watcher.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`);
  }

  /** Watches from before now get 410. */
  forget(): void {
    this.#forgotten = this.#version;
    this.#history = [];
  }

  /** Ends all watches: politely, or by cutting their connections. */
  endWatches(how: "end" | "cut"): void {
    for (const watcher of this.#watchers) {
      if (how === "end") watcher.end();
      else watcher.socket?.destroy();
    }
    this.#watchers.clear();
  }

  /** The next requests of this sort are answered so. */
  next(asked: Asked, ...faults: Fault[]): void {
    this.#faults[asked].push(...faults);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", "http://api");
    const asked: Asked = url.searchParams.get("watch") === "true" ? "watch" : "list";
    this.requests.push({ asked, query: url.searchParams, atMs: performance.now() });
    const fault = this.#faults[asked].shift();
    if (fault) fault(response, url);
    else if (asked === "watch") this.#watch(response, url);
    else this.#list(response, url);
  }

  #list(response: ServerResponse, url: URL): void {
    const limit = Number(url.searchParams.get("limit") ?? 0);
    const from = Number(url.searchParams.get("continue") ?? 0);
    const all = [...this.#items.values()];
    const to = limit > 0 ? Math.min(all.length, from + limit) : all.length;
    const token = to < all.length ? { continue: String(to) } : {};
    const body = { metadata: { resourceVersion: String(this.#version), ...token }, items: all.slice(from, to) };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  #watch(response: ServerResponse, url: URL): void {
    const from = Number(url.searchParams.get("resourceVersion") ?? 0);
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    if (from < this.#forgotten) {
      response.end(
        `${JSON.stringify({ type: "ERROR", object: { code: 410, reason: "Expired", message: "too old" } })}\n`,
      );
      return;
    }
    for (const change of this.#history) if (change.version > from) send(response, change);
    this.#watchers.add(response);
    const timer = setTimeout(() => response.end(), Number(url.searchParams.get("timeoutSeconds")) * 1000);
    response.on("close", () => {
      clearTimeout(timer);
      this.#watchers.delete(response);
    });
  }

  #tell(change: Change): void {
    this.#history.push(change);
    for (const watcher of this.#watchers) send(watcher, change);
  }
}

/** An answer that is only a status. */
export function refuse(code: number, headers: Record<string, string> = {}): Fault {
  return (response) => {
    const body = { kind: "Status", code, reason: "Scripted", message: `scripted ${code}` };
    response.writeHead(code, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };
}

/** Never answers. */
export const hang: Fault = () => undefined;

/** Cuts the connection in the middle of a line. */
export const cutMidLine: Fault = (response) => {
  response.writeHead(200);
  response.write('{"type":"ADDED","object":{"metadata":{"na');
  setTimeout(() => response.socket?.destroy(), 10);
};

function send(response: ServerResponse, { type, object }: Change): void {
  response.write(`${JSON.stringify({ type, object })}\n`);
}

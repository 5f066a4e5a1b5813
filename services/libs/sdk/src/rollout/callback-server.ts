// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const MAX_BODY_BYTES = 16 * 1024 * 1024;
const PATH = "/callback/";

export interface Callback extends Disposable {
  /** Secret: whoever knows it may answer, once. */
  readonly url: string;
  readonly answered: Promise<unknown>;
}

export interface CallbackServerOptions {
  /** Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** How agents reach it, e.g. behind a proxy: "http://host:port". Default: host and port it listens on. */
  readonly publicUrl?: string | undefined;
}

/** Where HTTP agents that take their time deliver results. Listens from the first use on, and keeps no process alive. */
export class CallbackServer {
  readonly #options: CallbackServerOptions;
  readonly #waiting = new Map<string, (result: unknown) => void>();
  #url: Promise<string> | undefined;

  constructor(options: CallbackServerOptions = {}) {
    this.#options = options;
  }

  async open(): Promise<Callback> {
    const base = await (this.#url ??= this.#listen());
    const token = randomBytes(24).toString("base64url");
    const { promise: answered, resolve } = Promise.withResolvers<unknown>();
    this.#waiting.set(token, resolve);
    return { url: `${base}${PATH}${token}`, answered, [Symbol.dispose]: () => this.#waiting.delete(token) };
  }

  async #listen(): Promise<string> {
    const { host = "127.0.0.1", publicUrl } = this.#options;
    const server: Server = createServer((request, response) => void this.#answer(request, response));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen(0, host, resolve);
    });
    server.unref();
    return publicUrl ?? `http://${host}:${(server.address() as AddressInfo).port}`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = (request.url ?? "").slice(PATH.length);
    if (request.method !== "POST" || !this.#waiting.has(token))
      return end(response, 404, "nobody waits for this result");
    const text = await readText(request).catch(() => undefined);
    if (text === undefined) return end(response, 413, "the result is larger than 16 MiB, or broke off");
    const result = parse(text);
    if (result === undefined) return end(response, 400, "the result is no JSON");
    this.#waiting.get(token)?.(result);
    return end(response, 204, "");
  }
}

function end(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { connection: "close" }).end(message === "" ? "" : JSON.stringify({ error: { message } }));
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new Error("too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

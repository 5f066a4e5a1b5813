// SPDX-License-Identifier: Apache-2.0
// Agents elsewhere reach the replicas by one name, and any of them may get a request. A key begins with a mark of the replica that
// issued it, which alone has its session: the others pass such a request on.
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { pipeline } from "node:stream/promises";
import { everyAddress } from "@whetstone/core";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Agent, type buildConnector } from "undici";
import { ApiError } from "../completion/api-error.ts";

export interface PeerRelayOptions {
  /** Of this replica's port for agents, as in `peerUrls`. */
  readonly ownUrl: string;
  /** Of those of all replicas; a host name stands for all of its addresses. */
  readonly peerUrls: readonly string[];
  /** Of peers with an https:// URL. */
  readonly connect?: buildConnector.connector | undefined;
}

/** A request that was passed on is not passed on again. */
const RELAYED = "x-whetstone-relayed";
const FRESH_MS = 1_000;
/** Of one connection; what an answer takes is bounded where it is made. */
const HOP = ["connection", "keep-alive", "transfer-encoding", "host", "upgrade", "expect"];

export class PeerRelay implements AsyncDisposable {
  /** What the keys of this replica begin with. */
  readonly keyPrefix: string;
  readonly #options: PeerRelayOptions;
  readonly #agent: Agent;
  /** URLs by the mark of their keys. */
  #peers: { readonly at: number; readonly byMark: Promise<Map<string, string>> } | undefined;

  constructor(options: PeerRelayOptions) {
    this.#options = options;
    this.keyPrefix = `ws-${markOf(options.ownUrl)}-`;
    const connect = options.connect === undefined ? {} : { connect: options.connect };
    this.#agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, ...connect });
  }

  /** The other replica that issued a key. Undefined: it was this one, or nobody that is known. */
  async issuerOf(key: string, { headers }: FastifyRequest): Promise<string | undefined> {
    const mark = /^ws-([0-9a-f]{8})-/.exec(key)?.[1];
    if (mark === undefined || key.startsWith(this.keyPrefix) || headers[RELAYED] !== undefined) return undefined;
    return (await this.#known()).get(mark);
  }

  /** Passes a request on whose body was not read yet, and its answer back as it comes. @throws ApiError 503 */
  async relay(issuer: string, { raw }: FastifyRequest, { raw: answer }: FastifyReply): Promise<void> {
    const left = new AbortController();
    answer.once("close", () => {
      left.abort();
    });
    const { method = "GET", url = "/", headers } = raw;
    const hasBody = method === "POST";
    const said = await this.#agent
      .request({
        ...{ origin: new URL(issuer).origin, path: url, method, signal: left.signal },
        ...{ headers: { ...withoutHop(headers), [RELAYED]: "1" }, body: hasBody ? raw : null },
      })
      .catch((cause: unknown) => {
        throw gone(cause);
      });
    answer.writeHead(said.statusCode, withoutHop(said.headers));
    await pipeline(said.body, answer).catch(() => undefined); // Either end has left: the other hears of it.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }

  #known(): Promise<Map<string, string>> {
    const now = performance.now();
    if (this.#peers === undefined || now - this.#peers.at > FRESH_MS)
      this.#peers = { at: now, byMark: peersByMark(this.#options.peerUrls) };
    return this.#peers.byMark;
  }
}

async function peersByMark(urls: readonly string[]): Promise<Map<string, string>> {
  const expanded = urls.map(async (url) => {
    const { protocol, hostname, port } = new URL(url);
    const hosts = await everyAddress(hostname);
    return hosts.map((host) => `${protocol}//${host}${port && `:${port}`}`);
  });
  return new Map((await Promise.all(expanded)).flat().map((url) => [markOf(url), url]));
}

function markOf(url: string): string {
  return createHash("sha256").update(new URL(url).origin).digest("hex").slice(0, 8);
}

function withoutHop(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(([name, value]) => value !== undefined && !HOP.includes(name));
  return Object.fromEntries(kept) as Record<string, string | string[]>;
}

function gone(cause: unknown): ApiError {
  const error = new ApiError("UNAVAILABLE", "gateway_gone", "the gateway that held this episode's session is gone");
  error.cause = cause;
  return error;
}

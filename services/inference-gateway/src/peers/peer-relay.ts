// SPDX-License-Identifier: Apache-2.0
// Agents elsewhere reach the replicas by one name, and any of them may get a request. A key begins with a mark of the replica that
// issued it, which most often has its session, and is asked first; one that left has handed it to another.
import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../completion/api-error.ts";
import { Lru } from "../lru.ts";
import { everyReplica } from "./every-replica.ts";
import { type Forwarder, gone, RELAYED } from "./forward.ts";

export interface PeerRelayOptions {
  /** Of this replica's port for agents, as in `peerUrls`. */
  readonly ownUrl: string;
  /** Of those of all replicas; a host name stands for all of its addresses. */
  readonly peerUrls: readonly string[];
  readonly forwarder: Forwarder;
}

const FRESH_MS = 1_000;
const PROBE_MS = 2_000;
/** Strangers can make up keys: so many are looked for at once. */
const MAX_LOOKS = 64;
const MAX_KNOWN = 20_000;

export class PeerRelay {
  /** What the keys of this replica begin with. */
  readonly keyPrefix: string;
  readonly #options: PeerRelayOptions;
  /** URLs by the mark of their keys. */
  #peers: { readonly at: number; readonly byMark: Promise<Map<string, string>> } | undefined;
  /** Which replica said last that it has a key's session. */
  readonly #holders = new Lru<string, string>(MAX_KNOWN);
  #looks = 0;

  constructor(options: PeerRelayOptions) {
    this.#options = options;
    this.keyPrefix = `ws-${markOf(options.ownUrl)}-`;
  }

  /**
   * The other replica that has the session of a key which is not known here. Undefined: none has.
   * @throws ApiError 503 where the replica that issued it does not answer and no other has it
   */
  async holderOf(key: string, { headers }: FastifyRequest): Promise<string | undefined> {
    const mark = /^ws-([0-9a-f]{8})-/.exec(key)?.[1];
    if (mark === undefined || headers[RELAYED] !== undefined) return undefined;
    const known = this.#holders.get(key);
    if (known !== undefined) return known;
    if (this.#looks >= MAX_LOOKS) throw tooMany();
    this.#looks++;
    try {
      const holder = await this.#find(key, mark);
      if (holder !== undefined) this.#holders.set(key, holder);
      return holder;
    } finally {
      this.#looks--;
    }
  }

  /** Passes a request on whose body was not read yet, and its answer back as it comes. @throws ApiError 503 */
  async relay(key: string, holder: string, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const status = await this.#options.forwarder.forward(holder, request, reply).catch((error: unknown) => {
      this.#holders.delete(key);
      throw error;
    });
    // Its session has ended, or has gone on.
    if (status === 401) this.#holders.delete(key);
  }

  async #find(key: string, mark: string): Promise<string | undefined> {
    const peers = new Map(await this.#known());
    peers.delete(markOf(this.#options.ownUrl));
    const issuer = peers.get(mark);
    peers.delete(mark);
    const issued = issuer === undefined ? false : await this.#has(issuer, key);
    if (issued === true) return issuer;
    const others = [...peers.values()];
    const having = await Promise.all(others.map((url) => this.#has(url, key)));
    const holder = others.find((_, index) => having[index] === true);
    if (holder === undefined && issued === undefined) throw gone();
    return holder;
  }

  /** Undefined: it does not answer. */
  async #has(url: string, key: string): Promise<boolean | undefined> {
    const asked = { method: "HEAD", headers: { authorization: `Bearer ${key}`, [RELAYED]: "1" } } as const;
    const target = new URL("/v1/models", url).href;
    const said = await this.#options.forwarder.ask(target, asked, AbortSignal.timeout(PROBE_MS)).catch(() => undefined);
    return said && said.status === 200;
  }

  #known(): Promise<Map<string, string>> {
    const now = performance.now();
    if (this.#peers === undefined || now - this.#peers.at > FRESH_MS)
      this.#peers = { at: now, byMark: peersByMark(this.#options.peerUrls) };
    return this.#peers.byMark;
  }
}

async function peersByMark(urls: readonly string[]): Promise<Map<string, string>> {
  return new Map((await everyReplica(urls)).map((url) => [markOf(url), url]));
}

function markOf(url: string): string {
  return createHash("sha256").update(new URL(url).origin).digest("hex").slice(0, 8);
}

function tooMany(): ApiError {
  const message = "too many keys are looked for at once";
  return new ApiError("UNAVAILABLE", "too_many_lookups", message, { retryAfterS: 1 });
}

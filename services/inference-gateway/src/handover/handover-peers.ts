// SPDX-License-Identifier: Apache-2.0
import { everyReplica } from "../peers/every-replica.ts";
import type { Forwarder } from "../peers/forward.ts";
import { HANDOVER_PATH } from "./session-state.ts";

export interface HandoverPeersOptions {
  /** Ports for our own services of all replicas; a host name stands for all of its addresses. */
  readonly urls: readonly string[];
  readonly forwarder: Forwarder;
  /** How long one answer may take. Default 5,000. */
  readonly answerMs?: number;
}

/** `silent`: nobody knows what it did. */
export type Said = "yes" | "no" | "silent";

const ANSWER_MS = 5_000;
/** A replica that did not answer is asked last for so long. */
const AVOID_MS = 10_000;

/** The other replicas, as the one that leaves knows them. Itself it may ask, too: it refuses. */
export class HandoverPeers {
  readonly #options: HandoverPeersOptions;
  readonly #silentAt = new Map<string, number>();
  #turn = Math.floor(Math.random() * 1024);

  constructor(options: HandoverPeersOptions) {
    this.#options = options;
  }

  /** All of them, another one first each time; those that were silent lately come last. */
  async inTurn(): Promise<string[]> {
    const all = await everyReplica(this.#options.urls);
    const from = this.#turn++ % Math.max(1, all.length);
    const silentLately = (url: string): number =>
      performance.now() - (this.#silentAt.get(url) ?? Number.NEGATIVE_INFINITY) < AVOID_MS ? 1 : 0;
    return [...all.slice(from), ...all.slice(0, from)].toSorted((a, b) => silentLately(a) - silentLately(b));
  }

  /** Asks for the first step. @returns what it said, and its port for agents */
  async hold(url: string, id: string, state: string, signal: AbortSignal): Promise<{ said: Said; agentsUrl?: string }> {
    const { said, body } = await this.#ask(`${url}${HANDOVER_PATH}/${id}`, state, signal);
    if (said === "silent") this.#silentAt.set(url, performance.now());
    const { agentsUrl } = said === "yes" ? (JSON.parse(body) as { agentsUrl?: string }) : {};
    return agentsUrl === undefined ? { said } : { said, agentsUrl };
  }

  /** Asks for the second step. */
  async own(url: string, id: string, signal: AbortSignal): Promise<Said> {
    return (await this.#ask(`${url}${HANDOVER_PATH}/${id}/own`, "", signal)).said;
  }

  async #ask(url: string, body: string, signal: AbortSignal): Promise<{ said: Said; body: string }> {
    const { forwarder, answerMs = ANSWER_MS } = this.#options;
    const headers = { "content-type": "application/json" };
    const within = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
    const answer = await forwarder.ask(url, { method: "POST", headers, body }, within).catch(() => undefined);
    if (answer === undefined) return { said: "silent", body: "" };
    return { said: answer.status === 200 ? "yes" : "no", body: answer.body };
  }
}

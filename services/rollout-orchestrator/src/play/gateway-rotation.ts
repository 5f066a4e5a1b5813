// SPDX-License-Identifier: Apache-2.0
import { EpisodeError } from "@whetstone/sdk";
import type { Gateway, GatewayChoice } from "./gateway.ts";

/**
 * Sessions go to the replicas in turns; one that leaves or does not answer is passed over while there is another. What a replica
 * holds is nowhere else, so a session stays where it was opened (docs/decisions/2026-11-25-several-gateways.md).
 */
export class GatewayRotation implements GatewayChoice {
  readonly #all: () => readonly Gateway[];
  #looking = false;
  /** Many processes begin at once. */
  #turn = Math.floor(Math.random() * 1024);

  constructor(all: () => readonly Gateway[]) {
    this.#all = all;
  }

  pick(): Gateway {
    const { taking } = this;
    const picked = taking[this.#turn++ % taking.length];
    if (picked === undefined) throw new EpisodeError("INFRASTRUCTURE", "no gateway is known", { code: "UNAVAILABLE" });
    picked.hasOthers = () => this.#all().some((other) => other !== picked && other.takesSessions);
    return picked;
  }

  /** Where all are away, all of them: one may be back before a call gives up. */
  get taking(): readonly Gateway[] {
    const all = this.#all();
    const taking = all.filter(({ takesSessions }) => takesSessions);
    return taking.length > 0 ? taking : all;
  }

  /** Asks each of several how it is. A single one is not asked: there is no choice. */
  async look(): Promise<void> {
    const all = this.#all();
    if (this.#looking || all.length < 2) return;
    this.#looking = true;
    await Promise.all(all.map((gateway) => gateway.look()));
    this.#looking = false;
  }
}

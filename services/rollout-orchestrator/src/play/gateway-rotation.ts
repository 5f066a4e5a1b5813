// SPDX-License-Identifier: Apache-2.0
import { EpisodeError } from "@whetstone/sdk";
import type { Gateway, GatewayChoice } from "./gateway.ts";

/**
 * Sessions go to the replicas in turns; one that leaves or does not answer is passed over while there is another. What a replica
 * holds is nowhere else, so a session stays where it was opened, unless that replica leaves and hands it over
 * (docs/decisions/2026-11-25-several-gateways.md).
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
    return this.#amongOthers(picked);
  }

  /** Asks all of them at once. */
  async holderOf(session: string, except: Gateway): Promise<Gateway | undefined> {
    const others = this.#all().filter((each) => each !== except);
    const asked = others.map(async (gateway) => {
      if (await gateway.holds(session)) return gateway;
      throw new Error("not here");
    });
    const holder = await Promise.any(asked).catch(() => undefined);
    return holder && this.#amongOthers(holder);
  }

  #amongOthers(gateway: Gateway): Gateway {
    gateway.hasOthers = () => this.#all().some((other) => other !== gateway && other.takesSessions);
    return gateway;
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

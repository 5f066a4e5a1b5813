// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Runners } from "./runners.ts";
import type { HeldClient, RunnerClients } from "./runner-clients.ts";

/** The way of one play to the env-runners that it may use. */
export class RunnerAccess {
  readonly elastic: boolean;
  readonly #clients: RunnerClients;
  readonly #moved = new AbortController();
  #addresses: string[];
  #broken = 0;

  constructor(clients: RunnerClients, { addresses, elastic }: Runners) {
    this.#clients = clients;
    this.#addresses = [...addresses];
    this.elastic = elastic;
  }

  /** Aborts with HANDED_BACK: this play is void, the episode is played elsewhere. */
  get moved(): AbortSignal {
    return this.#moved.signal;
  }

  /** Best first. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  hold(address: string): HeldClient {
    return this.#clients.hold(address, this.elastic);
  }

  /** This play does not try it again. */
  drop(address: string): void {
    this.#addresses = this.#addresses.filter((other) => other !== address);
  }

  /**
   * Whether an error at the start of a session says that its runner is away rather than that the environment failed. A runner
   * that was reached and then broke off is believed once: else an environment that ends its host would do so for ever.
   */
  isAway(error: unknown): boolean {
    if (!this.elastic || !(error instanceof WhetstoneError) || error.code !== "UNAVAILABLE") return false;
    const wasReached = "method" in error.context;
    return !wasReached || (this.#broken += 1) === 1;
  }

  /** @param retry  later: there was no room; safe: somebody may take it at once */
  handBack(message: string, retry: "safe" | "later"): WhetstoneError {
    const error = new WhetstoneError("HANDED_BACK", message, { retry });
    this.#moved.abort(error);
    return error;
  }
}

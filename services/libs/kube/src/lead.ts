// SPDX-License-Identifier: Apache-2.0
import { type Clock, WhetstoneError } from "@whetstone/core";
import type { Holding } from "./renewal.ts";
import type { Term } from "./term.ts";

export interface Leadership {
  readonly identity: string;
  /** Aborts when this process leads no longer, or is told to stop. */
  readonly signal: AbortSignal;
  /**
   * Throws when the lease was not renewed in time, by this machine's own clock and at this very moment: after a pause of the
   * process it is the first to know. Call it before anything that others can see.
   */
  assert(): void;
}

export interface LeadOptions {
  readonly identity: string;
  /** Told to stop. */
  readonly signal: AbortSignal;
  readonly term: Term;
  readonly renewMs: number;
  readonly clock: Clock;
}

/** The lead of this process, from its election to its end; once lost it is never had again. */
export class Lead implements Leadership, Holding {
  readonly identity: string;
  readonly signal: AbortSignal;
  /** Rejects when the lead is lost. */
  readonly lost: Promise<never>;
  readonly #lost = Promise.withResolvers<never>();
  readonly #abort = new AbortController();
  readonly #clock: Clock;
  readonly #renewMs: number;
  readonly #term: Term;
  error: WhetstoneError | undefined;

  constructor({ identity, signal, term, renewMs, clock }: LeadOptions) {
    this.identity = identity;
    this.signal = AbortSignal.any([signal, this.#abort.signal]);
    this.lost = this.#lost.promise;
    this.lost.catch(() => undefined);
    this.#clock = clock;
    this.#renewMs = renewMs;
    this.#term = term;
  }

  get isLost(): boolean {
    return this.error !== undefined;
  }

  leftMs(): number {
    return this.#term.endsAt - this.#clock.monotonicMs();
  }

  assert(): void {
    if (!this.error && this.leftMs() <= 0) this.lose("the lease was not renewed in time");
    if (this.error) throw this.error;
  }

  /** @param startedAt  when the renewal was sent: it may have counted from then on. */
  renewed(startedAt: number): void {
    if (!this.error && this.leftMs() > 0) this.#term.endsAt = startedAt + this.#renewMs;
  }

  lose(reason: string): void {
    if (this.error) return;
    this.error = new WhetstoneError("STALE_EPOCH", `${this.identity} leads no longer: ${reason}`);
    this.#abort.abort(this.error);
    this.#lost.reject(this.error);
  }

  /** Notices the end of the lease also while nobody asks. */
  async watch(stop: AbortSignal): Promise<void> {
    while (!stop.aborted && !this.error) {
      const leftMs = this.leftMs();
      if (leftMs <= 0) this.lose("the lease was not renewed in time");
      else await this.#clock.sleep(Math.min(leftMs, 500), stop).catch(() => undefined);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
import { type Clock, WhetstoneError } from "@whetstone/core";

export interface LeadershipOptions {
  readonly identity: string;
  /** Told to stop. */
  readonly signal: AbortSignal;
  /** By the clock's monotonic milliseconds: until when the lease holds unless it is renewed. */
  readonly endsAt: number;
  readonly clock: Clock;
}

/** That this process leads, from its election to its end; once lost it is never had again. */
export class Leadership {
  readonly identity: string;
  /** Aborts when this process leads no longer, or is told to stop. */
  readonly signal: AbortSignal;
  /** Rejects when the leadership is lost. */
  readonly lost: Promise<never>;
  error: WhetstoneError | undefined;
  readonly #lost = Promise.withResolvers<never>();
  readonly #abort = new AbortController();
  readonly #clock: Clock;
  #endsAt: number;

  constructor({ identity, signal, endsAt, clock }: LeadershipOptions) {
    this.identity = identity;
    this.signal = AbortSignal.any([signal, this.#abort.signal]);
    this.lost = this.#lost.promise;
    this.lost.catch(() => undefined);
    this.#clock = clock;
    this.#endsAt = endsAt;
  }

  leftMs(): number {
    return this.#endsAt - this.#clock.monotonicMs();
  }

  /**
   * Throws STALE_EPOCH when the lease was not renewed in time, by this machine's own clock and at this very moment: after a
   * pause of the process it is the first to know. Call it before anything that others can see.
   */
  assert(): void {
    if (!this.error && this.leftMs() <= 0) this.lose("the lease was not renewed in time");
    if (this.error) throw this.error;
  }

  renewedUntil(endsAt: number): void {
    if (!this.error && this.leftMs() > 0) this.#endsAt = endsAt;
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

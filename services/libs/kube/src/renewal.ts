// SPDX-License-Identifier: Apache-2.0
// Runs in a thread of its own, too: it imports nothing that costs memory.
import type { Clock } from "@whetstone/core";
import type { HeldRecord, LeaseLock, LeaseRecord } from "./lease-lock.ts";

export const CALL_MS = 5_000;

export interface Times {
  /** After its last renewal others take a lease over. */
  readonly leaseMs: number;
  /** The holder gives up earlier: in between nobody leads. */
  readonly renewMs: number;
  readonly retryMs: number;
  /** A main loop that stood still for less than that costs nothing; for longer, and the lease is not renewed any more. */
  readonly heartbeatMs: number;
}

/** What is renewed, as whoever renews sees it. */
export interface Holding {
  /** 0 or less: it is over, and stays so. */
  leftMs(): number;
  /** @param startedAt  when the renewal was sent: it may have counted from then on. */
  renewed(startedAt: number): void;
  lose(reason: string): void;
}

export interface RenewalOptions {
  readonly lock: Omit<LeaseLock, "create">;
  readonly clock: Clock;
  readonly identity: string;
  readonly times: Times;
  readonly onFailure: (error: unknown, leftMs: number) => void;
  /** Whether there is still somebody to renew it for. */
  readonly mayRenew?: () => boolean;
}

/** Keeps a lease that is ours, every `retryMs`, until told to stop or until it is over. */
export class Renewal {
  readonly #options: RenewalOptions;
  /** What the lease said when we last knew. */
  #known: HeldRecord | undefined;

  constructor(options: RenewalOptions, known: HeldRecord | undefined) {
    this.#options = options;
    this.#known = known;
  }

  /** @returns what the lease says now, as far as is known */
  async run(holding: Holding, stop: AbortSignal): Promise<HeldRecord | undefined> {
    const { clock, times, onFailure, mayRenew = () => true } = this.#options;
    for (;;) {
      await clock.sleep(times.retryMs, stop).catch(() => undefined);
      const startedAt = clock.monotonicMs();
      if (stop.aborted || holding.leftMs() <= 0) return this.#known;
      if (!mayRenew()) continue;
      try {
        if (await this.#renew(holding, stop)) holding.renewed(startedAt);
      } catch (error) {
        if (!stop.aborted) onFailure(error, holding.leftMs());
      }
    }
  }

  async #renew(holding: Holding, stop: AbortSignal): Promise<boolean> {
    const { identity, lock } = this.#options;
    const timeoutMs = Math.max(1, Math.round(Math.min(CALL_MS, holding.leftMs())));
    const record = this.#known?.holder === identity ? this.#known : await lock.read(stop, timeoutMs);
    // Not made anew: it may be gone because all of us are to go. If not, whoever is elected next makes it.
    if (!record) throw new Error("the lease is gone");
    if (record.holder !== identity) {
      this.#known = record;
      holding.lose(`the lease is held by ${record.holder || "nobody"}`);
      return false;
    }
    try {
      this.#known = await lock.change(this.#next(record), record.version, { timeoutMs });
      return true;
    } catch (error) {
      this.#known = undefined; // Somebody else wrote: look before the next attempt.
      throw error;
    }
  }

  #next({ acquireTime, transitions }: HeldRecord): LeaseRecord {
    const { clock, identity, times } = this.#options;
    return { holder: identity, durationMs: times.leaseMs, renewTime: wallTime(clock), acquireTime, transitions };
  }
}

/** As Kubernetes writes times of leases: microseconds. */
export function wallTime(clock: Pick<Clock, "now">): string {
  return new Date(clock.now()).toISOString().replace("Z", "000Z");
}

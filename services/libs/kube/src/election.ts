// SPDX-License-Identifier: Apache-2.0
import { type Clock, systemClock, WhetstoneError } from "@whetstone/core";
import { type Logger, silentLogger } from "@whetstone/telemetry";
import type { Kube } from "./kube.ts";
import { Leadership } from "./leadership.ts";
import { type HeldRecord, type LeaseLock, leaseLock, type LeaseRecord } from "./lease-lock.ts";

/** Others take a lease over this long after its last renewal. */
const LEASE_MS = 15_000;
/** The holder gives up earlier: in between nobody leads. */
const RENEW_WITHIN_MS = 10_000;
const RENEW_EVERY_MS = 2_000;
const CALL_MS = 5_000;
/** How often one who waits looks. */
const LOOK_MS = 1_000;
/** How long the work of a former leader is waited for. */
const GRACE_MS = 3_000;

export interface ElectOptions {
  readonly kube: Kube;
  /** Name of the Lease in the client's namespace. */
  readonly lease: string;
  /** Unique for this process, and shown in the Lease. */
  readonly identity: string;
  /** The work of the leader. When it ends by itself the lease is given back. */
  readonly onLead: (leadership: Leadership) => Promise<void>;
  /** Ends the campaign, or the leadership: its work first, then the lease is given back. */
  readonly signal: AbortSignal;
  readonly logger?: Logger | undefined;
  readonly clock?: Clock | undefined;
  /** For tests; default: the Lease, over connections of its own. */
  readonly lock?: LeaseLock | undefined;
}

/**
 * Campaigns until elected, leads, and resolves when told to stop. Rejects with STALE_EPOCH when the lease was lost: the process
 * must end then, so that nothing of its leadership goes on. A main loop that stands still for `RENEW_WITHIN_MS` has lost its
 * lease. A Lease never proves that nobody else acts: receivers check epochs.
 */
export async function elect(options: ElectOptions): Promise<void> {
  using kube = options.kube.separate();
  await new Election(options, kube).run();
}

class Election {
  readonly #options: ElectOptions;
  readonly #lock: LeaseLock;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** What the lease said when it was last seen to change, and when that was by our clock. */
  #seen: { record: HeldRecord; at: number } | undefined;

  constructor(options: ElectOptions, kube: Kube) {
    this.#options = options;
    this.#lock = options.lock ?? leaseLock(kube, options.lease);
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
  }

  async run(): Promise<void> {
    const { signal, identity, lease } = this.#options;
    const since = await this.#campaign();
    if (since === undefined || signal.aborted) return;
    this.#logger.info("leader_elected", { identity, lease });
    await this.#lead(new Leadership({ identity, signal, endsAt: since + RENEW_WITHIN_MS, clock: this.#clock }));
  }

  /** @returns when the call that made us leader began; undefined when told to stop. */
  async #campaign(): Promise<number | undefined> {
    const { signal } = this.#options;
    for (let last = ""; !signal.aborted;) {
      const startedAt = this.#clock.monotonicMs();
      try {
        if (await this.#take()) return startedAt;
        const holder = this.#seen?.record.holder ?? "";
        if (holder !== last) this.#logger.info("leader_seen", { holder });
        last = holder;
      } catch (error) {
        if (!signal.aborted && !isRace(error)) this.#logger.warn("lease_unreachable", { error });
      }
      await this.#clock.sleep(this.#lookAgainMs(), signal).catch(() => undefined);
    }
    return undefined;
  }

  /** One attempt to become the holder. */
  async #take(): Promise<boolean> {
    const { identity, signal } = this.#options;
    const record = await this.#lock.read(signal, CALL_MS);
    const now = this.#clock.monotonicMs();
    if (record && !sameHold(record, this.#seen?.record)) this.#seen = { record, at: now };
    // One that is gone holds as long as it said when it was seen last.
    const isFree = record ? record.holder === "" || record.holder === identity : this.#seen === undefined;
    if (!isFree && now < this.#expiresAt()) return false;
    const changed = record?.holder === identity ? 0 : 1;
    const mine = this.#held(this.#time(), record ? record.transitions + changed : 0);
    const call = { timeoutMs: CALL_MS };
    const at = this.#clock.monotonicMs();
    const taken = await (record ? this.#lock.change(mine, record.version, call) : this.#lock.create(mine, call));
    this.#seen = { record: taken, at };
    return true;
  }

  async #lead(leadership: Leadership): Promise<void> {
    const { onLead, signal } = this.#options;
    const stop = new AbortController();
    const renewing = this.#renew(leadership, stop.signal);
    const watching = leadership.watch(stop.signal);
    const work = (async () => onLead(leadership))();
    let failure: WhetstoneError | undefined;
    try {
      await Promise.race([work, leadership.lost]);
    } catch (error) {
      failure = leadership.error ?? WhetstoneError.from(error);
      if (leadership.error) await this.#ended(work, leadership.error);
    }
    stop.abort();
    const [last] = await Promise.all([renewing, watching]);
    if (!leadership.error) await this.#release(last);
    if (failure && (leadership.error || !signal.aborted)) throw failure;
  }

  async #ended(work: Promise<void>, error: WhetstoneError): Promise<void> {
    this.#logger.error("leader_lost", { identity: this.#options.identity, error });
    const grace = new AbortController();
    await Promise.race([work.catch(() => undefined), this.#clock.sleep(GRACE_MS, grace.signal).catch(() => undefined)]);
    grace.abort();
  }

  /** Until told to stop or until it is over. @returns what the lease says then, as far as is known */
  async #renew(leadership: Leadership, stop: AbortSignal): Promise<HeldRecord | undefined> {
    let known = this.#seen?.record;
    for (;;) {
      await this.#clock.sleep(RENEW_EVERY_MS, stop).catch(() => undefined);
      const startedAt = this.#clock.monotonicMs();
      if (stop.aborted || leadership.leftMs() <= 0) return known;
      try {
        known = await this.#renewOnce(known, leadership, stop);
        // The renewal may have counted from when it was sent.
        leadership.renewedUntil(startedAt + RENEW_WITHIN_MS);
      } catch (error) {
        known = undefined; // Somebody else may have written: look before the next attempt.
        if (!stop.aborted) this.#logger.warn("lease_not_renewed", { error, leftMs: Math.round(leadership.leftMs()) });
      }
    }
  }

  async #renewOnce(
    known: HeldRecord | undefined,
    leadership: Leadership,
    stop: AbortSignal,
  ): Promise<HeldRecord | undefined> {
    const { identity } = this.#options;
    const timeoutMs = Math.max(1, Math.round(Math.min(CALL_MS, leadership.leftMs())));
    const record = known ?? (await this.#lock.read(stop, timeoutMs));
    // Not made anew: it may be gone because all of us are to go. If not, whoever is elected next makes it.
    if (!record) throw new Error("the lease is gone");
    if (record.holder !== identity) {
      leadership.lose(`the lease is held by ${record.holder || "nobody"}`);
      return record;
    }
    const mine = this.#held(record.acquireTime, record.transitions);
    return await this.#lock.change(mine, record.version, { timeoutMs });
  }

  /** So that the next one need not wait for the lease to run out. */
  async #release(record: HeldRecord | undefined): Promise<void> {
    const { identity } = this.#options;
    if (record?.holder !== identity) return;
    const free = { ...record, holder: "", durationMs: 1000, renewTime: this.#time() };
    await this.#lock.change(free, record.version, { timeoutMs: CALL_MS }).then(
      () => this.#logger.info("leader_released", { identity }),
      (error: unknown) => this.#logger.warn("lease_not_released", { error }),
    );
  }

  #held(acquireTime: string, transitions: number): LeaseRecord {
    const { identity: holder } = this.#options;
    return { holder, durationMs: LEASE_MS, renewTime: this.#time(), acquireTime, transitions };
  }

  /** As Kubernetes writes times of leases: microseconds. */
  #time(): string {
    return new Date(this.#clock.now()).toISOString().replace("Z", "000Z");
  }

  #expiresAt(): number {
    return this.#seen ? this.#seen.at + this.#seen.record.durationMs : 0;
  }

  /** At the latest when the lease runs out. */
  #lookAgainMs(): number {
    const look = LOOK_MS * (0.8 + Math.random() * 0.4);
    const leftMs = this.#expiresAt() - this.#clock.monotonicMs();
    return leftMs > 0 ? Math.min(look, leftMs + 10) : look;
  }
}

function sameHold(a: LeaseRecord, b: LeaseRecord | undefined): boolean {
  return a.renewTime === b?.renewTime && a.holder === b.holder;
}

/** Two that try at once: one is told so. */
function isRace(error: unknown): boolean {
  const { code } = WhetstoneError.from(error);
  return code === "CONFLICT" || code === "ALREADY_EXISTS";
}

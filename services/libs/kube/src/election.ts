// SPDX-License-Identifier: Apache-2.0
import { type Clock, systemClock, WhetstoneError } from "@whetstone/core";
import { type Logger, silentLogger } from "@whetstone/telemetry";
import type { Kube } from "./kube.ts";
import { type HeldRecord, type LeaseLock, leaseLock, type LeaseRecord } from "./lease-lock.ts";

/** The holder gives up `renewMs` after its last renewal, others take over after `leaseMs`: in between nobody leads. */
const TIMES = { leaseMs: 15_000, renewMs: 10_000, retryMs: 2_000 } as const;
/** How often one who waits looks. */
const LOOK_MS = 1_000;
const CALL_MS = 5_000;
/** How long the work of a former leader is waited for. */
const GRACE_MS = 3_000;

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

export interface ElectOptions {
  readonly kube: Kube;
  /** Name of the Lease in the client's namespace. */
  readonly lease: string;
  /** Unique for this process, and shown in the Lease. */
  readonly identity: string;
  /** The work of the leader. When it ends by itself the lease is given back. */
  readonly onLead: (lead: Leadership) => Promise<void>;
  /** Ends the campaign, or the lead: its work first, then the lease is given back. */
  readonly signal: AbortSignal;
  readonly logger?: Logger | undefined;
  readonly times?: Partial<typeof TIMES> | undefined;
  readonly clock?: Clock | undefined;
  /** For tests; default: the Lease, over connections of its own. */
  readonly lock?: LeaseLock | undefined;
}

/**
 * Campaigns until elected, leads, and resolves when told to stop. Rejects with STALE_EPOCH when the lease was lost: the process
 * must end then, so that nothing of its lead goes on. A Lease never proves that nobody else acts: receivers check epochs.
 */
export async function elect(options: ElectOptions): Promise<void> {
  using kube = options.kube.separate();
  await new Election(options, options.lock ?? leaseLock(kube, options.lease)).run();
}

class Election {
  readonly #options: ElectOptions;
  readonly #lock: LeaseLock;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #times: typeof TIMES;
  /** What the lease said when it was last seen to change, and when that was by our clock. */
  #seen: { record: HeldRecord; at: number } | undefined;

  constructor(options: ElectOptions, lock: LeaseLock) {
    this.#options = options;
    this.#lock = lock;
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
    this.#times = { ...TIMES, ...options.times };
  }

  async run(): Promise<void> {
    const { signal } = this.#options;
    const since = await this.#campaign();
    if (since === undefined || signal.aborted) return;
    this.#logger.info("leader_elected", { identity: this.#options.identity, lease: this.#options.lease });
    await this.#lead(new Lead(this.#options, { since, renewMs: this.#times.renewMs, clock: this.#clock }));
  }

  /** @returns when the renewal that made us leader began; undefined when told to stop. */
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
    if (record && record.holder !== "" && record.holder !== identity && now < this.#expiresAt()) return false;
    const changed = record?.holder === identity ? 0 : 1;
    const time = this.#wallTime();
    const next = this.#record({ acquireTime: time, transitions: record ? record.transitions + changed : 0 });
    await this.#write(next, record?.version, CALL_MS);
    return true;
  }

  async #lead(lead: Lead): Promise<void> {
    const { onLead, signal } = this.#options;
    const stop = new AbortController();
    const renewing = this.#renew(lead, stop.signal);
    const watching = lead.watch(stop.signal);
    const work = (async () => onLead(lead))();
    let failure: WhetstoneError | undefined;
    try {
      await Promise.race([work, lead.lost]);
    } catch (error) {
      failure = lead.error ?? WhetstoneError.from(error);
      if (lead.isLost) await this.#ended(work, lead);
    }
    stop.abort();
    await Promise.all([renewing, watching]);
    await this.#release(lead);
    if (failure && (lead.isLost || !signal.aborted)) throw failure;
  }

  async #ended(work: Promise<void>, lead: Lead): Promise<void> {
    this.#logger.error("leader_lost", { identity: this.#options.identity, error: lead.error });
    const grace = new AbortController();
    await Promise.race([work.catch(() => undefined), this.#clock.sleep(GRACE_MS, grace.signal).catch(() => undefined)]);
    grace.abort();
  }

  async #renew(lead: Lead, stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      await this.#clock.sleep(this.#times.retryMs, stop).catch(() => undefined);
      if (stop.aborted) return;
      const startedAt = this.#clock.monotonicMs();
      if (lead.leftMs() <= 0) return;
      try {
        await this.#renewOnce(lead);
        lead.renewed(startedAt);
      } catch (error) {
        if (!stop.aborted) this.#logger.warn("lease_not_renewed", { error, leftMs: Math.round(lead.leftMs()) });
      }
    }
  }

  async #renewOnce(lead: Lead): Promise<void> {
    const { identity, signal } = this.#options;
    const timeoutMs = Math.max(1, Math.min(CALL_MS, lead.leftMs()));
    const known = this.#seen?.record;
    const record = known?.holder === identity ? known : await this.#lock.read(signal, timeoutMs);
    if (record && record.holder !== identity) {
      lead.lose(`the lease is held by ${record.holder || "nobody"}`);
      return;
    }
    const { acquireTime = this.#wallTime(), transitions = 0, version } = record ?? {};
    try {
      await this.#write(this.#record({ acquireTime, transitions }), version, timeoutMs);
    } catch (error) {
      this.#seen = undefined; // Somebody else wrote: look before the next attempt.
      throw error;
    }
  }

  /** So that the next one need not wait for the lease to run out. */
  async #release(lead: Lead): Promise<void> {
    const record = this.#seen?.record;
    if (lead.isLost || record?.holder !== this.#options.identity) return;
    const free = { ...record, holder: "", durationMs: 1000, renewTime: this.#wallTime() };
    await this.#lock.write(free, record.version, { timeoutMs: CALL_MS }).then(
      () => this.#logger.info("leader_released", { identity: this.#options.identity }),
      (error: unknown) => this.#logger.warn("lease_not_released", { error }),
    );
  }

  async #write(record: LeaseRecord, version: string | undefined, timeoutMs: number): Promise<void> {
    const at = this.#clock.monotonicMs();
    this.#seen = { record: await this.#lock.write(record, version, { timeoutMs }), at };
  }

  #record(of: Pick<LeaseRecord, "acquireTime" | "transitions">): LeaseRecord {
    const { identity } = this.#options;
    return { holder: identity, durationMs: this.#times.leaseMs, renewTime: this.#wallTime(), ...of };
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

  #wallTime(): string {
    return new Date(this.#clock.now()).toISOString().replace("Z", "000Z");
  }
}

interface LeadStart {
  readonly since: number;
  readonly renewMs: number;
  readonly clock: Clock;
}

class Lead implements Leadership {
  readonly identity: string;
  readonly signal: AbortSignal;
  /** Rejects when the lead is lost. */
  readonly lost: Promise<never>;
  readonly #lost = Promise.withResolvers<never>();
  readonly #abort = new AbortController();
  readonly #clock: Clock;
  readonly #renewMs: number;
  #validUntil: number;
  error: WhetstoneError | undefined;

  constructor({ identity, signal }: ElectOptions, { since, renewMs, clock }: LeadStart) {
    this.identity = identity;
    this.signal = AbortSignal.any([signal, this.#abort.signal]);
    this.lost = this.#lost.promise;
    this.lost.catch(() => undefined);
    this.#clock = clock;
    this.#renewMs = renewMs;
    this.#validUntil = since + renewMs;
  }

  get isLost(): boolean {
    return this.error !== undefined;
  }

  leftMs(): number {
    return this.#validUntil - this.#clock.monotonicMs();
  }

  assert(): void {
    if (!this.error && this.leftMs() <= 0) this.lose("the lease was not renewed in time");
    if (this.error) throw this.error;
  }

  /** @param startedAt  when the renewal was sent: it may have counted from then on. */
  renewed(startedAt: number): void {
    if (!this.error && this.leftMs() > 0) this.#validUntil = startedAt + this.#renewMs;
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

function sameHold(a: LeaseRecord, b: LeaseRecord | undefined): boolean {
  return a.renewTime === b?.renewTime && a.holder === b.holder;
}

/** Two that try at once: one is told so. */
function isRace(error: unknown): boolean {
  const { code } = WhetstoneError.from(error);
  return code === "CONFLICT" || code === "ALREADY_EXISTS";
}

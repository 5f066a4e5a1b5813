// SPDX-License-Identifier: Apache-2.0
import { type Clock, systemClock, WhetstoneError } from "@whetstone/core";
import { type Logger, silentLogger } from "@whetstone/telemetry";
import type { Kube } from "./kube.ts";
import { Lead, type Leadership } from "./lead.ts";
import { type HeldRecord, type LeaseLock, leaseLock, type LeaseRecord } from "./lease-lock.ts";
import { CALL_MS, Renewal, type Times, wallTime } from "./renewal.ts";
import { RenewalThread } from "./renewal-thread.ts";
import { steadyMs, Term } from "./term.ts";

export type { Leadership } from "./lead.ts";

/** A main loop that stands still for 15 s keeps its lease; one that does for 25 s has lost it, and others follow 5 s later. */
const TIMES: Times = { leaseMs: 15_000, renewMs: 10_000, retryMs: 2_000, heartbeatMs: 15_000 };
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
  readonly onLead: (lead: Leadership) => Promise<void>;
  /** Ends the campaign, or the lead: its work first, then the lease is given back. */
  readonly signal: AbortSignal;
  readonly logger?: Logger | undefined;
  readonly times?: Partial<Times> | undefined;
  readonly clock?: Clock | undefined;
  /** For tests; default: the Lease, over connections of its own. */
  readonly lock?: LeaseLock | undefined;
}

/**
 * Campaigns until elected, leads, and resolves when told to stop. Rejects with STALE_EPOCH when the lease was lost: the process
 * must end then, so that nothing of its lead goes on; one whose main loop does not come back is killed. A thread of its own
 * renews. A Lease never proves that nobody else acts: receivers check epochs.
 */
export async function elect(options: ElectOptions): Promise<void> {
  using kube = options.kube.separate();
  await new Election(options, kube).run();
}

class Election {
  readonly #options: ElectOptions;
  readonly #kube: Kube;
  readonly #lock: LeaseLock;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #times: Times;
  /** What the lease said when it was last seen to change, and when that was by our clock. */
  #seen: { record: HeldRecord; at: number } | undefined;

  constructor(options: ElectOptions, kube: Kube) {
    this.#options = options;
    this.#kube = kube;
    this.#lock = options.lock ?? leaseLock(kube, options.lease);
    this.#clock = options.clock ?? { ...systemClock, monotonicMs: steadyMs };
    this.#logger = options.logger ?? silentLogger;
    this.#times = { ...TIMES, ...options.times };
  }

  async run(): Promise<void> {
    const { signal } = this.#options;
    const since = await this.#campaign();
    if (since === undefined || signal.aborted) return;
    this.#logger.info("leader_elected", { identity: this.#options.identity, lease: this.#options.lease });
    const term = new Term();
    term.endsAt = since + this.#times.renewMs;
    const { identity } = this.#options;
    await this.#lead(new Lead({ identity, signal, term, renewMs: this.#times.renewMs, clock: this.#clock }), term);
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
    // One that is gone holds as long as it said when it was seen last.
    const isFree = record ? record.holder === "" || record.holder === identity : this.#seen === undefined;
    if (!isFree && now < this.#expiresAt()) return false;
    const changed = record?.holder === identity ? 0 : 1;
    const time = wallTime(this.#clock);
    const transitions = record ? record.transitions + changed : 0;
    const times = { durationMs: this.#times.leaseMs, renewTime: time, acquireTime: time };
    const at = this.#clock.monotonicMs();
    const mine = { holder: identity, ...times, transitions };
    const call = { timeoutMs: CALL_MS };
    const taken = await (record ? this.#lock.change(mine, record.version, call) : this.#lock.create(mine, call));
    this.#seen = { record: taken, at };
    return true;
  }

  async #lead(lead: Lead, term: Term): Promise<void> {
    const { onLead, signal } = this.#options;
    const stop = new AbortController();
    const renewing = (await this.#renewal(term)).run(lead, stop.signal);
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
    const [last] = await Promise.all([renewing, watching]);
    await this.#release(lead, last);
    if (failure && (lead.isLost || !signal.aborted)) throw failure;
  }

  async #ended(work: Promise<void>, lead: Lead): Promise<void> {
    this.#logger.error("leader_lost", { identity: this.#options.identity, error: lead.error });
    const grace = new AbortController();
    await Promise.race([work.catch(() => undefined), this.#clock.sleep(GRACE_MS, grace.signal).catch(() => undefined)]);
    grace.abort();
  }

  /** A thread of its own; here where a test owns lock and time, and where the way to the server is no plain one. */
  async #renewal(term: Term): Promise<Pick<Renewal, "run">> {
    const { identity, lease, lock, clock } = this.#options;
    const parts = { identity, times: this.#times, onFailure: this.#onFailure };
    const known = this.#seen?.record;
    const access = lock || clock ? undefined : await RenewalThread.access(this.#kube).catch(() => undefined);
    if (access) return new RenewalThread({ ...parts, kube: this.#kube, lease, term, access, known });
    return new Renewal({ ...parts, lock: this.#lock, clock: this.#clock }, known);
  }

  readonly #onFailure = (error: unknown, leftMs: number): void => {
    this.#logger.warn("lease_not_renewed", { error, leftMs: Math.round(leftMs) });
  };

  /** So that the next one need not wait for the lease to run out. */
  async #release(lead: Lead, record: HeldRecord | undefined): Promise<void> {
    if (lead.isLost || record?.holder !== this.#options.identity) return;
    const free = { ...record, holder: "", durationMs: 1000, renewTime: wallTime(this.#clock) };
    await this.#lock.change(free, record.version, { timeoutMs: CALL_MS }).then(
      () => this.#logger.info("leader_released", { identity: this.#options.identity }),
      (error: unknown) => this.#logger.warn("lease_not_released", { error }),
    );
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

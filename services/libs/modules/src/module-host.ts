// SPDX-License-Identifier: Apache-2.0
import { Gate } from "@whetstone/core";
import type { ChildOptions } from "./child-process.ts";
import { HostProcess } from "./host-process.ts";
import type { HostIsolation } from "./isolation.ts";

// When a process dies, one of those in it is to blame and the rest are bystanders; nobody can tell who. So what was in a process
// that died goes on apart from the others: first in company of a few, then alone. Who is alone when a process dies did it.
// H1: what has never been in a process that died shares one with everybody. H2: a death costs at most those that were in the
// same process. H3: with two more tries nobody fails for another's fault: the third is played alone.

/** How many suspects share a process. */
const COMPANY = 32;
/** Processes with one suspect each. */
const CELLS = 2;
/** Processes of suspects that stand empty end after this; the main one is its owner's to close. */
const IDLE_MS = 30_000;

export interface Lease extends Disposable {
  readonly host: HostProcess;
}

export interface ModuleHostOptions extends Omit<ChildOptions, "isolation"> {
  readonly isolation: HostIsolation;
}

/** The processes of one module for one job: a sandbox each. */
export class ModuleHost {
  readonly #main: Room;
  readonly #company: Room;
  readonly #cells: Room[];
  readonly #cellGate = new Gate(CELLS);
  readonly #isolation: HostIsolation;
  #leases = 0;
  #idleSince = performance.now();

  constructor({ isolation, ...others }: ModuleHostOptions) {
    const options = { ...others, isolation: () => isolation.get() };
    this.#isolation = isolation;
    this.#main = new Room(options, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
    this.#company = new Room(options, COMPANY, IDLE_MS);
    this.#cells = Array.from({ length: CELLS }, () => new Room(options, 1, IDLE_MS));
  }

  /** Leases held now. */
  get leases(): number {
    return this.#leases;
  }

  /** How long nobody has held one, milliseconds. */
  get idleMs(): number {
    return this.#leases > 0 ? 0 : performance.now() - this.#idleSince;
  }

  get pids(): number[] {
    return [this.#main, this.#company, ...this.#cells].flatMap(({ host }) => host?.pid ?? []);
  }

  /** @param deaths  processes that have died with this one inside */
  async enter(deaths: number, signal?: AbortSignal): Promise<Lease> {
    const lease = deaths === 0 ? this.#main.enterNow() : await this.#suspect(deaths, signal);
    this.#leases += 1;
    let held = true;
    return {
      host: lease.host,
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        this.#leases -= 1;
        this.#idleSince = performance.now();
        lease[Symbol.dispose]();
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all([this.#main, this.#company, ...this.#cells].map((room) => room.close()));
    await this.#isolation.close();
  }

  async #suspect(deaths: number, signal: AbortSignal | undefined): Promise<Lease> {
    if (deaths === 1) return this.#company.enter(signal);
    const slot = await this.#cellGate.acquire(signal);
    const cell = this.#cells.find(({ guests }) => guests === 0) as Room;
    const lease = cell.enterNow();
    return {
      host: lease.host,
      [Symbol.dispose]: () => {
        lease[Symbol.dispose]();
        slot[Symbol.dispose]();
      },
    };
  }
}

/** One process, made at the first entry and closed when it has been empty for a while. */
class Room {
  guests = 0;
  host: HostProcess | undefined;
  readonly #options: ChildOptions;
  readonly #gate: Gate | undefined;
  readonly #idleMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ChildOptions, capacity: number, idleMs: number) {
    this.#options = options;
    this.#gate = Number.isFinite(capacity) ? new Gate(capacity) : undefined;
    this.#idleMs = idleMs;
  }

  async enter(signal: AbortSignal | undefined): Promise<Lease> {
    const slot = await this.#gate?.acquire(signal);
    const { host, [Symbol.dispose]: leave } = this.enterNow();
    return {
      host,
      [Symbol.dispose]: () => {
        leave();
        slot?.[Symbol.dispose]();
      },
    };
  }

  enterNow(): Lease {
    clearTimeout(this.#timer);
    this.guests += 1;
    this.host ??= new HostProcess(this.#options);
    return {
      host: this.host,
      [Symbol.dispose]: () => {
        this.#left();
      },
    };
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    const { host } = this;
    this.host = undefined;
    await host?.close();
  }

  #left(): void {
    this.guests -= 1;
    if (this.guests > 0 || !Number.isFinite(this.#idleMs)) return;
    this.#timer = setTimeout(() => void this.close(), this.#idleMs).unref();
  }
}

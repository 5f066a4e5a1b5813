// SPDX-License-Identifier: Apache-2.0
// Who gets the next slot. F1: no slot is granted while `limit` or more are held. F2: a free slot never stays free while
// anybody waits, whosever share it was. F3: of the jobs that wait, the one furthest behind goes first; how far a job has
// come is the slot time it had, by weight; what nobody else wanted costs nothing. F4: within a job, first come, first served. F5: a job's queue is bounded.
// F6: an aborted waiter leaves the queue and takes no slot. Every grant moves its job on, so nobody waits for ever.
import { abortReason, onAbort, WhetstoneError } from "@whetstone/core";

export interface FairGateOptions {
  /** Waiters of one job beyond this are refused with RESOURCE_EXHAUSTED. Default: 20,000. */
  readonly maxQueuedPerJob?: number;
  /** Milliseconds of a clock that never steps back. */
  readonly now: () => number;
}

interface Account {
  weight: number;
  /** Slot milliseconds by weight; for slots still held, what they are expected to come to. */
  pass: number;
  /** The part of `pass` that is expected only. */
  advance: number;
  held: number;
  /** How long a slot is held, milliseconds: a running mean. Undefined: none was given back yet. */
  estimate: number | undefined;
  readonly waiters: Set<Waiter>;
}

type Waiter = (slot: Disposable) => void;

/** A grant costs something even when it is over at once; otherwise it would move nobody on. */
const LEAST_MS = 1;
const SMOOTHING = 0.1;

/** Slots that jobs share by weight: stride scheduling whose strides are the time that slots were held. */
export class FairGate {
  readonly #accounts = new Map<string, Account>();
  readonly #maxQueued: number;
  readonly #now: () => number;
  #limit: number;
  #held = 0;
  /** For jobs that have none of their own yet. */
  #estimate: number | undefined;

  constructor(limit: number, options: FairGateOptions) {
    this.#limit = atLeastNone(limit);
    this.#maxQueued = options.maxQueuedPerJob ?? 20_000;
    this.#now = options.now;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Slots held. */
  get active(): number {
    return this.#held;
  }

  get queued(): number {
    return this.#accounts.values().reduce((sum, { waiters }) => sum + waiters.size, 0);
  }

  activeOf(job: string): number {
    return this.#accounts.get(job)?.held ?? 0;
  }

  /** Slots above a lower limit are not taken back; none is granted until enough are given back. */
  set limit(limit: number) {
    this.#limit = atLeastNone(limit);
    this.#grant();
  }

  /** A job's share beside others, above 0; 1 unless told. */
  setWeight(job: string, weight: number): void {
    if (!(weight > 0)) throw new WhetstoneError("INVALID_ARGUMENT", `a weight must be above 0, not ${weight}`);
    this.#account(job).weight = weight;
  }

  /** Drops what is known about a job that neither holds nor waits. */
  forget(job: string): void {
    const account = this.#accounts.get(job);
    if (account?.held === 0 && account.waiters.size === 0) this.#accounts.delete(job);
  }

  /** Waits for the job's next slot; dispose it to give it back. Disposing twice is harmless. */
  async acquire(job: string, signal?: AbortSignal): Promise<Disposable> {
    if (signal?.aborted) throw abortReason(signal);
    const account = this.#account(job);
    if (account.waiters.size >= this.#maxQueued) {
      const message = `${account.waiters.size} tasks of job ${job} wait for a slot already`;
      throw new WhetstoneError("RESOURCE_EXHAUSTED", message, { context: { limit: this.#limit } });
    }
    if (account.held === 0 && account.waiters.size === 0) this.#join(account);
    const granted = waitFor(account, signal);
    this.#grant();
    return granted;
  }

  #account(job: string): Account {
    const known = this.#accounts.get(job);
    if (known !== undefined) return known;
    const account = { weight: 1, pass: 0, advance: 0, held: 0, estimate: undefined, waiters: new Set<Waiter>() };
    this.#accounts.set(job, account);
    return account;
  }

  /** Who was away gets no credit for it: it starts where the job is that has come the least far. */
  #join(account: Account): void {
    let least = Number.POSITIVE_INFINITY;
    for (const other of this.#accounts.values()) {
      if (other !== account && other.held + other.waiters.size > 0) least = Math.min(least, other.pass - other.advance);
    }
    if (least < Number.POSITIVE_INFINITY) account.pass = Math.max(account.pass, least);
  }

  #grant(): void {
    while (this.#held < this.#limit) {
      const account = this.#furthestBehind();
      if (account === undefined) return;
      const [next] = account.waiters as unknown as [Waiter]; // A Set iterates in order of insertion: F4.
      account.waiters.delete(next);
      next(this.#slot(account));
    }
  }

  #furthestBehind(): Account | undefined {
    let found: Account | undefined;
    for (const account of this.#accounts.values()) {
      if (account.waiters.size > 0 && (found === undefined || account.pass < found.pass)) found = account;
    }
    return found;
  }

  #isAlone(account: Account): boolean {
    for (const other of this.#accounts.values()) {
      if (other !== account && other.held + other.waiters.size > 0) return false;
    }
    return true;
  }

  #slot(account: Account): Disposable {
    const since = this.#now();
    // Else a job that had everything would be without for long after another one comes.
    const isFree = this.#isAlone(account);
    const advance = isFree ? 0 : (account.estimate ?? this.#estimate ?? LEAST_MS) / account.weight;
    account.pass += advance;
    account.advance += advance;
    account.held += 1;
    this.#held += 1;
    let isHeld = true;
    return {
      [Symbol.dispose]: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#held -= 1;
        const heldMs = Math.max(LEAST_MS, this.#now() - since);
        settle(account, { advance, cost: isFree ? 0 : heldMs / account.weight, heldMs });
        this.#estimate = towards(this.#estimate, heldMs);
        this.#grant();
      },
    };
  }
}

interface Settlement {
  readonly advance: number;
  readonly cost: number;
  readonly heldMs: number;
}

/** What was charged in advance gives way to what it really was. */
function settle(account: Account, { advance, cost, heldMs }: Settlement): void {
  account.held -= 1;
  account.advance = account.held === 0 ? 0 : account.advance - advance;
  account.pass += cost - advance;
  account.estimate = towards(account.estimate, heldMs);
}

function towards(mean: number | undefined, value: number): number {
  return mean === undefined ? value : mean + SMOOTHING * (value - mean);
}

function waitFor({ waiters }: Account, signal: AbortSignal | undefined): Promise<Disposable> {
  return new Promise((resolve, reject) => {
    const stay =
      signal &&
      onAbort(signal, () => {
        waiters.delete(waiter); // F6
        reject(abortReason(signal));
      });
    const waiter: Waiter = (slot) => {
      stay?.();
      resolve(slot);
    };
    waiters.add(waiter);
  });
}

/** 0: nobody gets in for now. */
function atLeastNone(limit: number): number {
  if (Number.isSafeInteger(limit) && limit >= 0) return limit;
  throw new WhetstoneError("INVALID_ARGUMENT", `a gate needs a limit of at least 0, not ${limit}`);
}

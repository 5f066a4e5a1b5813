// SPDX-License-Identifier: Apache-2.0
import { abortReason } from "./deadline.ts";
import { WhetstoneError } from "./errors.ts";
import { onAbort } from "./on-abort.ts";

// G1: never more than `limit` holders. G2: first come, first served. G3: a slot freed goes to the next waiter at once.
// G4: an aborted waiter leaves the queue and takes no slot. G5: the queue is bounded; beyond it, RESOURCE_EXHAUSTED.

interface Waiter {
  readonly grant: () => void;
}

export interface GateOptions {
  /** Waiters beyond this are refused with RESOURCE_EXHAUSTED, retry later. Default: 100,000. */
  readonly maxQueued?: number;
}

/** Bounded concurrency with an abortable, bounded wait. */
export class Gate {
  readonly limit: number;
  readonly #maxQueued: number;
  readonly #waiters = new Set<Waiter>();
  #active = 0;

  constructor(limit: number, options: GateOptions = {}) {
    if (!Number.isSafeInteger(limit) || limit < 1) {
      throw new WhetstoneError("INVALID_ARGUMENT", `a gate needs a limit of at least 1, not ${limit}`);
    }
    this.limit = limit;
    this.#maxQueued = options.maxQueued ?? 100_000;
  }

  get active(): number {
    return this.#active;
  }

  get queued(): number {
    return this.#waiters.size;
  }

  /** Runs `fn` inside a slot. The slot is freed when `fn` settles, not when the signal aborts. */
  async run<T>(fn: () => Promise<T> | T, signal?: AbortSignal): Promise<T> {
    using _slot = await this.acquire(signal);
    return await fn();
  }

  /** Takes a slot; dispose it to give it back. Disposing twice is harmless. */
  async acquire(signal?: AbortSignal): Promise<Disposable> {
    if (signal?.aborted) throw abortReason(signal);
    if (this.#active < this.limit) this.#active += 1;
    else await this.#wait(signal);
    return this.#slot();
  }

  #wait(signal: AbortSignal | undefined): Promise<void> {
    if (this.#waiters.size >= this.#maxQueued) {
      throw new WhetstoneError("RESOURCE_EXHAUSTED", `gate is full: ${this.#active} active, ${this.queued} queued`, {
        context: { limit: this.limit, maxQueued: this.#maxQueued },
      });
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        grant: () => {
          leave?.();
          resolve();
        },
      };
      this.#waiters.add(waiter);
      const leave =
        signal &&
        onAbort(signal, () => {
          this.#waiters.delete(waiter); // G4
          reject(abortReason(signal));
        });
    });
  }

  #slot(): Disposable {
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        this.#release();
      },
    };
  }

  #release(): void {
    const [next] = this.#waiters; // A Set iterates in order of insertion: G2.
    if (next === undefined) {
      this.#active -= 1;
      return;
    }
    this.#waiters.delete(next); // G3: the slot changes hands without passing through "free", so G1 holds.
    next.grant();
  }
}

// SPDX-License-Identifier: Apache-2.0
import { abortReason, onAbort } from "@whetstone/core";
import type { Awaitable } from "../base-env.ts";
import type { Phase } from "../failure.ts";

/**
 * Runs the phases of one try, one after the other, each bounded by the episode's signal even if the work does not listen.
 * One abort listener serves them all: a listener a phase would cost more than the phase.
 */
export class PhaseClock implements Disposable {
  /** The phase that runs, or ran last. */
  phase: Phase = "reset";
  modelMs = 0;
  environmentMs = 0;
  readonly #signal: AbortSignal;
  readonly #unlisten: () => void;
  #reject: ((reason: Error) => void) | undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    this.#unlisten = onAbort(signal, this.#onAbort);
  }

  async run<T>(phase: Phase, work: () => Awaitable<T>): Promise<T> {
    this.phase = phase;
    if (this.#signal.aborted) throw abortReason(this.#signal);
    const startedAt = performance.now();
    try {
      const result = work();
      return result instanceof Promise ? await this.#bounded(result) : result;
    } finally {
      this.#add(phase, performance.now() - startedAt);
    }
  }

  [Symbol.dispose](): void {
    this.#unlisten();
  }

  #bounded<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject; // The loser of the race has no effect: a promise settles once.
      work.then(resolve, reject);
    });
  }

  #add(phase: Phase, ms: number): void {
    if (phase === "model") this.modelMs += ms;
    else this.environmentMs += ms;
  }

  readonly #onAbort = (): void => {
    this.#reject?.(abortReason(this.#signal));
  };
}

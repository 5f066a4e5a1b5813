// SPDX-License-Identifier: Apache-2.0
import { abortReason, onAbort } from "@whetstone/core";
import type { Awaitable } from "../base-env.ts";
import { EpisodeError, failureClassOf, type Phase } from "../failure.ts";

/** Most milliseconds of single phases, inside the one deadline. Absent: only the deadline bounds the phase. */
export interface PhaseTimeouts {
  /** Opening and resetting the environment together. */
  readonly reset?: number | undefined;
  /** One model call. */
  readonly model?: number | undefined;
  readonly step?: number | undefined;
  /** The final reward. */
  readonly reward?: number | undefined;
  /** Also after the episode's deadline. Absent: `closeTimeoutMs`. */
  readonly close?: number | undefined;
}

/**
 * Runs the phases of one try, one after the other, each bounded by the episode's signal even if the work does not listen.
 * One abort listener serves them all: a listener a phase would cost more than the phase. A phase that passes its own bound
 * fails with its class, and ends the clock: `signal` is aborted, so that what still works for the try stops.
 */
export class PhaseClock implements Disposable {
  /** What the work of a phase gets. */
  readonly signal: AbortSignal;
  /** The phase that runs, or ran last. */
  phase: Phase = "reset";
  modelMs = 0;
  environmentMs = 0;
  readonly #timeouts: PhaseTimeouts | undefined;
  /** Only where there are bounds of phases: without, the episode's signal is enough. */
  readonly #own: AbortController | undefined;
  readonly #given: AbortSignal;
  readonly #unlisten: () => void;
  #reject: ((reason: Error) => void) | undefined;

  constructor(signal: AbortSignal, timeouts?: PhaseTimeouts) {
    this.#given = signal;
    this.#timeouts = timeouts;
    this.#own = timeouts !== undefined && hasBounds(timeouts) ? new AbortController() : undefined;
    this.signal = this.#own?.signal ?? signal;
    this.#unlisten = onAbort(signal, this.#onAbort);
    if (signal.aborted) this.#own?.abort(abortReason(signal));
  }

  async run<T>(phase: Phase, work: () => Awaitable<T>): Promise<T> {
    this.phase = phase;
    if (this.signal.aborted) throw abortReason(this.signal);
    const startedAt = performance.now();
    let timer: NodeJS.Timeout | undefined;
    try {
      const result = work();
      if (!(result instanceof Promise)) return result;
      timer = this.#arm(phase);
      return await this.#bounded(result);
    } finally {
      clearTimeout(timer);
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

  #arm(phase: Phase): NodeJS.Timeout | undefined {
    const boundMs = this.#own === undefined ? undefined : this.#timeouts?.[phase];
    if (boundMs === undefined) return undefined;
    // Nothing but opening comes before a reset, so what is on the clock counts.
    const leftMs = phase === "reset" ? Math.max(0, boundMs - this.environmentMs) : boundMs;
    return setTimeout(
      () => {
        this.#expire(phase, boundMs);
      },
      Math.min(leftMs, LONGEST_TIMER_MS),
    );
  }

  #expire(phase: Phase, boundMs: number): void {
    const message = `${phase} took longer than its ${boundMs} ms (phaseTimeoutsMs.${phase})`;
    const error = new EpisodeError(failureClassOf(phase), message, { code: "DEADLINE_EXCEEDED" });
    this.#own?.abort(error);
    this.#reject?.(error);
  }

  #add(phase: Phase, ms: number): void {
    if (phase === "model") this.modelMs += ms;
    else this.environmentMs += ms;
  }

  readonly #onAbort = (): void => {
    const reason = abortReason(this.#given);
    this.#own?.abort(reason);
    this.#reject?.(reason);
  };
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

function hasBounds({ reset, model, step, reward }: PhaseTimeouts): boolean {
  return (reset ?? model ?? step ?? reward) !== undefined;
}

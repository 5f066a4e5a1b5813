// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@whetstone/core";

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

/** Time that a test moves. Several clocks may be moved together: each process of a test has its own. */
export class FakeClock implements Clock {
  #at = 0;
  readonly #wallOffset: number;
  #sleepers: Sleeper[] = [];

  constructor(wallOffset = 1_700_000_000_000) {
    this.#wallOffset = wallOffset;
  }

  now(): number {
    return this.#wallOffset + this.#at;
  }

  monotonicMs(): number {
    return this.#at;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const sleeper = { at: this.#at + ms, wake: resolve };
      this.#sleepers.push(sleeper);
      signal?.addEventListener("abort", () => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
        reject(signal.reason as Error);
      });
    });
  }

  /** Lets the time pass in small steps, with everything that happens in them. */
  async pass(ms: number, stepMs = 50): Promise<void> {
    const end = this.#at + ms;
    while (this.#at < end) {
      this.#at = Math.min(end, this.#at + stepMs);
      this.#wakeDue();
      await settle();
    }
  }

  /** The process stands still: time goes on, nothing runs. What is due runs at the next `pass`. */
  pause(ms: number): void {
    this.#at += ms;
  }

  #wakeDue(): void {
    const due = this.#sleepers.filter(({ at }) => at <= this.#at).sort((a, b) => a.at - b.at);
    this.#sleepers = this.#sleepers.filter(({ at }) => at > this.#at);
    for (const { wake } of due) wake();
  }
}

/** Lets all promises that can settle do so. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
}

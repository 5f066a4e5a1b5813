// SPDX-License-Identifier: Apache-2.0

export interface RetryLimitOptions {
  readonly firstMs?: number;
  readonly maxMs?: number;
  /** Retries of all keys together: so many a second, so many at once. */
  readonly perSecond?: number;
  readonly burst?: number;
  readonly random?: () => number;
}

/** How long a key that failed waits: 5 ms · 2ⁿ up to 60 s by its own failures, and a token of the bucket that all share. */
export class RetryLimits {
  readonly #failures = new Map<string, number>();
  readonly #options: Required<RetryLimitOptions>;
  #tokens: number;
  #filledAt = performance.now();

  constructor(options: RetryLimitOptions = {}) {
    this.#options = { firstMs: 5, maxMs: 60_000, perSecond: 10, burst: 100, random: Math.random, ...options };
    this.#tokens = this.#options.burst;
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** @returns milliseconds until the key may be tried again. */
  failed(key: string): number {
    const { firstMs, maxMs, random } = this.#options;
    const failures = this.failures(key);
    this.#failures.set(key, failures + 1);
    const own = Math.min(maxMs, firstMs * 2 ** Math.min(failures, 30)) * (0.75 + random() / 4);
    return Math.max(own, this.#reserve());
  }

  succeeded(key: string): void {
    this.#failures.delete(key);
  }

  #reserve(): number {
    const { perSecond, burst } = this.#options;
    const now = performance.now();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#filledAt) / 1000) * perSecond) - 1;
    this.#filledAt = now;
    return this.#tokens >= 0 ? 0 : (-this.#tokens / perSecond) * 1000;
  }
}

// SPDX-License-Identifier: Apache-2.0
import { sleep } from "./deadline.ts";
import { isAbort, WhetstoneError } from "./errors.ts";

export interface BackoffOptions {
  /** Upper bound of the first wait, milliseconds. */
  readonly initialMs?: number;
  /** Upper bound of every wait, milliseconds. */
  readonly maxMs?: number;
  readonly factor?: number;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
}

/** Wait before retry `attempt` (from 1), in milliseconds. */
export type Backoff = (attempt: number) => number;

/** Exponential with full jitter: uniform in [0, min(maxMs, initialMs × factor^(attempt−1))]. */
export function exponentialBackoff(options: BackoffOptions = {}): Backoff {
  const { initialMs = 100, maxMs = 10_000, factor = 2, random = Math.random } = options;
  return (attempt) => random() * Math.min(maxMs, initialMs * factor ** Math.max(0, attempt - 1));
}

export interface RetryOptions {
  /** Calls in all, the first included. `Infinity` is allowed when a signal ends it. */
  readonly attempts: number;
  readonly backoff?: Backoff;
  readonly signal?: AbortSignal | undefined;
  /** Default: errors whose retry class is not `never`. An abort is never retried. */
  readonly isRetryable?: (error: unknown) => boolean;
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
}

export function isRetryableError(error: unknown): boolean {
  return error instanceof WhetstoneError && error.retry !== "never";
}

/** Calls `fn` until it succeeds, fails for good, or the attempts are used up; then throws its last error. */
export async function retry<T>(fn: (attempt: number) => Promise<T>, options: RetryOptions): Promise<T> {
  const { backoff = exponentialBackoff(), sleep: wait = sleep, signal } = options;
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted();
    try {
      return await fn(attempt);
    } catch (error) {
      if (attempt >= options.attempts || isFinal(error, options)) throw error;
      await wait(backoff(attempt), signal);
    }
  }
}

function isFinal(error: unknown, { signal, isRetryable = isRetryableError }: RetryOptions): boolean {
  return isAbort(error) || signal?.aborted === true || !isRetryable(error);
}

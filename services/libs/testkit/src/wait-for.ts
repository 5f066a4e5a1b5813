// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";

export interface WaitOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number;
  /** Default 10. */
  readonly intervalMs?: number;
  /** Named when the time is up. */
  readonly what?: string;
}

/** The predicate's first truthy answer. One that throws counts as "not yet"; its last error is the cause. */
export async function waitFor<T>(
  predicate: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<Awaited<T>, false | null | undefined | 0 | "">> {
  const { timeoutMs = 30_000, intervalMs = 10, what = "the condition" } = options;
  const endsAt = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await predicate();
      if (value) return value as Exclude<Awaited<T>, false | null | undefined | 0 | "">;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > endsAt) throw timeUp(what, timeoutMs, cause);
    await sleep(intervalMs);
  }
}

function timeUp(what: string, timeoutMs: number, cause: unknown): WhetstoneError {
  return new WhetstoneError("DEADLINE_EXCEEDED", `waited ${timeoutMs} ms for ${what}`, { cause });
}

// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "./errors.ts";

/** Scored attempts at one task. */
export interface TaskAttempts {
  readonly attempts: number;
  readonly correct: number;
}

/**
 * Unbiased pass@k of one task: 1 − C(n−c, k) / C(n, k), as a product, so that nothing overflows.
 * Source: Chen et al., arXiv 2107.03374.
 */
export function passAtK({ attempts: n, correct: c }: TaskAttempts, k: number): number {
  if (!Number.isSafeInteger(k) || k < 1 || k > n || c < 0 || c > n) {
    throw new WhetstoneError(
      "INVALID_ARGUMENT",
      `pass@${k} needs 1 ≤ k ≤ attempts and correct ≤ attempts: ${c} of ${n}`,
    );
  }
  if (n - c < k) return 1;
  let missed = 1;
  for (let i = n - c + 1; i <= n; i += 1) missed *= 1 - k / i;
  return 1 - missed;
}

/** Mean over the tasks that have at least k attempts; NaN when none has. */
export function computePassAtK(tasks: readonly TaskAttempts[], k: number): number {
  const scored = tasks.filter((task) => task.attempts >= k);
  return scored.reduce((sum, task) => sum + passAtK(task, k), 0) / scored.length;
}

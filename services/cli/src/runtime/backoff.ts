// SPDX-License-Identifier: Apache-2.0
/** When a service that exited is started again. Times in milliseconds. */

const FIRST_DELAY_MS = 200;
const LONGEST_DELAY_MS = 5_000;
/** A service that was healthy this long has earned a fresh start. */
export const HEALTHY_AFTER_MS = 30_000;

/** Delay before the n-th start in a row (n from 1): 200, 400, … 5000 ms. */
export function restartDelay(crashesInARow: number): number {
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.max(0, crashesInARow - 1));
}

/** Crashes in a row after one more crash. `healthyMs`: how long it had been ready; 0: it never was. */
export function crashesAfter(crashesInARow: number, healthyMs: number): number {
  return healthyMs >= HEALTHY_AFTER_MS ? 1 : crashesInARow + 1;
}

// SPDX-License-Identifier: Apache-2.0
import { sleep } from "./deadline.ts";

/** Time as a parameter, so that tests own it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds of a clock that never steps back; only differences mean anything. */
  monotonicMs(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep,
};

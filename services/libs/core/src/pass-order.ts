// SPDX-License-Identifier: Apache-2.0
import { createRng, deriveSeed } from "./seed.ts";

/**
 * The order of one pass over a list: a permutation of 0 … length−1 that follows from seed and pass alone. Controller and SDK share
 * it, so that a job goes through its tasks as a program does.
 */
export function passOrder(length: number, seed: number | bigint, pass: number): number[] {
  return createRng(deriveSeed(seed, "pass", pass)).shuffle(Array.from({ length }, (_, index) => index));
}

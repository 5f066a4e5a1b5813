// SPDX-License-Identifier: Apache-2.0
import { createRng, deriveSeed, shuffling } from "./seed.ts";
import { runAtOnce } from "./turns.ts";

/**
 * The order of one pass over a list: a permutation of 0 … length−1 that follows from seed and pass alone. Controller and SDK share
 * it, so that a job goes through its tasks as a program does.
 */
export function passOrder(length: number, seed: number | bigint, pass: number): Uint32Array {
  return runAtOnce(makePassOrder(length, seed, pass));
}

/** As `passOrder`, in steps. */
export function* makePassOrder(length: number, seed: number | bigint, pass: number): Generator<void, Uint32Array> {
  const order = new Uint32Array(length);
  for (let i = 0; i < length; i++) order[i] = i;
  const rng = createRng(deriveSeed(seed, "pass", pass));
  yield* shuffling(order, (bound) => rng.integer(bound));
  return order;
}

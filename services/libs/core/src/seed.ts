// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "./errors.ts";
import { runAtOnce } from "./turns.ts";

// Only 32-bit integer arithmetic: the same input gives the same numbers on every machine and in every engine.
// Hash: FNV-1a over UTF-8 with a length-free separator, finished by murmur3's fmix32. Generator: xoshiro128**
// (Blackman and Vigna, prng.di.unimi.it), its state filled by splitmix32.

const encoder = new TextEncoder();

function fmix32(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function hash32(text: string): number {
  let h = 0x811c9dc5;
  for (const byte of encoder.encode(text)) h = Math.imul(h ^ byte, 0x01000193);
  return fmix32(h >>> 0);
}

/**
 * A seed for one purpose, from a base and the parts that name the purpose: `deriveSeed(job.seed, "episode", group, sample)`.
 * @returns an integer in [0, 2^31), what every engine accepts. `1` and `"1"` are the same part; `("ab","c")` and `("a","bc")` are not.
 */
export function deriveSeed(base: number | string | bigint, ...parts: readonly (number | string | bigint)[]): number {
  const text = [base, ...parts].map((part) => String(part).replaceAll("\\", "\\\\").replaceAll("/", "\\/")).join("/");
  return hash32(text) >>> 1;
}

/** A small seeded generator. Not for secrets. */
export interface Rng {
  /** Uniform in [0, 1), a multiple of 2^-32. */
  next(): number;
  /** Uniform integer in [0, n), without modulo bias; n in [1, 2^32]. */
  integer(n: number): number;
  /** A shuffled copy (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[];
  /** One of the items; at least one is required. */
  choice<T>(items: readonly T[]): T;
}

function splitmix32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    return fmix32(state);
  };
}

function rotateLeft(x: number, k: number): number {
  return ((x << k) | (x >>> (32 - k))) >>> 0;
}

function xoshiro128(seed: number): () => number {
  const fill = splitmix32(seed);
  let [a, b, c, d] = [fill(), fill(), fill(), fill()];
  return () => {
    const result = Math.imul(rotateLeft(Math.imul(b, 5) >>> 0, 7), 9) >>> 0;
    const t = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= t;
    d = rotateLeft(d >>> 0, 11);
    return result;
  };
}

export function createRng(seed: number | string): Rng {
  const uint32 = xoshiro128(
    typeof seed === "number" && Number.isSafeInteger(seed) ? mixNumber(seed) : hash32(String(seed)),
  );
  const integer = (n: number): number => {
    if (!Number.isSafeInteger(n) || n < 1 || n > 2 ** 32) {
      throw new WhetstoneError("INVALID_ARGUMENT", `integer(n) needs n in [1, 2^32], not ${n}`);
    }
    const limit = 2 ** 32 - (2 ** 32 % n); // Draws at or above it would favour small results.
    for (;;) {
      const draw = uint32();
      if (draw < limit) return draw % n;
    }
  };
  return {
    next: () => uint32() / 2 ** 32,
    integer,
    shuffle: (items) => shuffled(items, integer),
    choice: (items) => {
      if (items.length === 0) throw new WhetstoneError("INVALID_ARGUMENT", "choice() needs at least one item");
      return items[integer(items.length)] as (typeof items)[number];
    },
  };
}

/** Seeds up to 2^53 keep all their bits' influence; those below 2^32 stay themselves. */
function mixNumber(seed: number): number {
  const high = Math.floor(Math.abs(seed) / 2 ** 32);
  return (seed >>> 0) ^ (high === 0 && seed >= 0 ? 0 : fmix32(high + (seed < 0 ? 0x5bd1e995 : 0)));
}

function shuffled<T>(items: readonly T[], integer: Rng["integer"]): T[] {
  const result = [...items];
  runAtOnce(shuffling(result, integer));
  return result;
}

/** Shuffles in place, item by item (Fisher-Yates). */
export function* shuffling<T>(items: { [index: number]: T; readonly length: number }, integer: Rng["integer"]) {
  for (let i = items.length - 1; i > 0; i -= 1) {
    const j = integer(i + 1);
    [items[i], items[j]] = [items[j] as T, items[i] as T];
    yield;
  }
}

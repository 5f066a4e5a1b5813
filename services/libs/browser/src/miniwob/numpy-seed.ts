// SPDX-License-Identifier: Apache-2.0
// What BrowserGym seeds a MiniWoB++ page with: `numpy.random.RandomState(seed).randint(0, 1000000)`. The generator is the Mersenne
// Twister (Matsumoto and Nishimura 1998, init_genrand), and the number is drawn as numpy does for small ranges: by its lowest
// bits, again while they are too large.

const SIZE = 624;
const MIDDLE = 397;
const LARGEST = 999_999;
const MASK = 2 ** 20 - 1;

/** @param seed  RandomState knows 32 bits; of larger ones those are used. */
export function pageSeed(seed: number): number {
  const state = initialState(Number(BigInt(seed) & 0xffffffffn));
  twist(state);
  for (const word of state) {
    const number = temper(word) & MASK;
    if (number <= LARGEST) return number;
  }
  throw new Error("624 draws out of the range: each is one by less than 5 %");
}

function initialState(seed: number): Uint32Array {
  const state = new Uint32Array(SIZE);
  state[0] = seed;
  for (let i = 1; i < SIZE; i += 1) {
    const before = state[i - 1] ?? 0;
    state[i] = Math.imul(1812433253, before ^ (before >>> 30)) + i;
  }
  return state;
}

function twist(state: Uint32Array): void {
  const word = (i: number): number => state[i % SIZE] ?? 0;
  for (let i = 0; i < SIZE; i += 1) {
    const y = (word(i) & 0x80000000) | (word(i + 1) & 0x7fffffff);
    state[i] = word(i + MIDDLE) ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
  }
}

function temper(word: number): number {
  let y = word;
  y ^= y >>> 11;
  y ^= (y << 7) & 0x9d2c5680;
  y ^= (y << 15) & 0xefc60000;
  y ^= y >>> 18;
  return y >>> 0;
}

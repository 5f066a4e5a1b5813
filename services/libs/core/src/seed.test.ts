// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import { createRng, deriveSeed } from "./index.ts";

it("derives frozen seeds: changing them would change every run (pins)", () => {
  expect(deriveSeed(0)).toBe(846_743_472);
  expect(deriveSeed(17, "episode", "g12", 3)).toBe(319_273_906);
  const rng = createRng(42);
  expect([rng.integer(1_000_000), rng.integer(1_000_000), rng.integer(1_000_000)]).toEqual([322_924, 945_897, 756_282]);
});

it("gives every engine a seed it accepts, and names parts without confusion", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string(), fc.integer()), { minLength: 1, maxLength: 4 }), (parts) => {
      const [base = 0, ...rest] = parts;
      const seed = deriveSeed(base, ...rest);
      expect(Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31).toBe(true);
    }),
  );
  expect(deriveSeed("ab", "c")).not.toBe(deriveSeed("a", "bc"));
  expect(deriveSeed("a/b")).not.toBe(deriveSeed("a", "b"));
  expect(deriveSeed(1, "x")).toBe(deriveSeed("1", "x"));
});

it("hardly collides over a run's episodes", () => {
  const seeds = new Set<number>();
  for (let group = 0; group < 2_000; group += 1) {
    for (let sample = 0; sample < 8; sample += 1) seeds.add(deriveSeed(1, "episode", `g${group}`, sample));
  }
  expect(seeds.size).toBeGreaterThan(15_990); // 16,000 draws of 2^31: 0.06 collisions expected.
});

it("draws uniformly and shuffles without loss", () => {
  const rng = createRng(7);
  const counts = Array<number>(6).fill(0);
  for (let i = 0; i < 60_000; i += 1) {
    const face = rng.integer(6);
    counts[face] = (counts[face] ?? 0) + 1;
  }
  for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(500); // 5 standard deviations.
  for (let i = 0; i < 1_000; i += 1) {
    const x = rng.next();
    expect(x >= 0 && x < 1).toBe(true);
  }
  fc.assert(
    fc.property(fc.integer(), fc.array(fc.integer()), (seed, items) => {
      const shuffled = createRng(seed).shuffle(items);
      expect([...shuffled].sort()).toEqual([...items].sort());
      expect(createRng(seed).shuffle(items)).toEqual(shuffled);
    }),
  );
  expect(() => rng.choice([])).toThrow();
  expect(() => rng.integer(0)).toThrow();
});

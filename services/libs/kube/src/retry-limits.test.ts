// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RetryLimits } from "./retry-limits.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

describe("retry limits", () => {
  it("doubles a key's wait from 5 ms up to 60 s, and forgets at success", () => {
    const limits = new RetryLimits({ random: () => 1 });
    const waits = Array.from({ length: 16 }, () => limits.failed("a"));
    expect(waits.slice(0, 4)).toEqual([5, 10, 20, 40]);
    expect(waits.at(-1)).toBe(60_000);
    expect(limits.failed("b")).toBe(5);
    limits.succeeded("a");
    expect(limits.failed("a")).toBe(5);
  });

  it("spreads keys that fail together", () => {
    const limits = new RetryLimits();
    for (let i = 0; i < 10; i++) limits.failed("a");
    const waits = Array.from({ length: 20 }, (_, i) => {
      const other = new RetryLimits();
      for (let n = 0; n < 9; n++) other.failed(`k${i}`);
      return other.failed(`k${i}`);
    });
    expect(new Set(waits).size).toBeGreaterThan(1);
    for (const wait of waits) expect(wait).toBeGreaterThanOrEqual(0.75 * 5 * 2 ** 9);
  });

  it("lets a hundred retries through at once, then ten a second", () => {
    const limits = new RetryLimits({ random: () => 1 });
    for (let i = 0; i < 100; i++) expect(limits.failed(`k${i}`)).toBe(5);
    expect(limits.failed("k100")).toBeCloseTo(100, 0);
    expect(limits.failed("k101")).toBeCloseTo(200, 0);
    vi.advanceTimersByTime(60_000);
    expect(limits.failed("k102")).toBe(5);
  });
});

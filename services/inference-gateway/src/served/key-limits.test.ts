// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { ApiError } from "../completion/api-error.ts";
import { KeyLimits } from "./key-limits.ts";

/** Seconds to wait as the refusal says. */
function refusedFor(work: () => unknown): number {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError && error.reason === "rate_limit_exceeded") return error.retryAfterS ?? -1;
    throw error;
  }
  return 0;
}

describe("KeyLimits", () => {
  it("holds nobody back without limits", () => {
    const limits = new KeyLimits({}, 0);
    for (let index = 0; index < 1000; index++) limits.begin(0);
    limits.useTokens(1e9);
    expect(refusedFor(() => limits.begin(0))).toBe(0);
  });

  it("gives a minute's requests at once, and then as they come back", () => {
    const limits = new KeyLimits({ requestsPerMinute: 6 }, 0);
    for (let index = 0; index < 6; index++) limits.begin(0)();
    expect(refusedFor(() => limits.begin(0))).toBe(10);
    expect(refusedFor(() => limits.begin(9_000))).toBe(1);
    expect(refusedFor(() => limits.begin(10_000))).toBe(0);
    expect(refusedFor(() => limits.begin(10_000))).toBe(10);
    for (let index = 0; index < 6; index++) expect(refusedFor(() => limits.begin(600_000))).toBe(0);
    expect(refusedFor(() => limits.begin(600_000))).toBe(10);
  });

  it("lets the next request wait for the tokens that the last one took too many", () => {
    const limits = new KeyLimits({ tokensPerMinute: 60 }, 0);
    limits.begin(0)();
    limits.useTokens(180);
    expect(refusedFor(() => limits.begin(0))).toBe(121);
    expect(refusedFor(() => limits.begin(121_000))).toBe(0);
  });

  it("counts those that run", () => {
    const limits = new KeyLimits({ maxRunning: 2 }, 0);
    const end = limits.begin(0);
    limits.begin(0);
    expect(refusedFor(() => limits.begin(0))).toBe(1);
    end();
    expect(refusedFor(() => limits.begin(0))).toBe(0);
  });

  it("keeps what is used up when the limits change", () => {
    const limits = new KeyLimits({ requestsPerMinute: 6 }, 0);
    for (let index = 0; index < 6; index++) limits.begin(0)();
    limits.change({ requestsPerMinute: 60 });
    expect(refusedFor(() => limits.begin(0))).toBe(1);
    limits.change({});
    expect(refusedFor(() => limits.begin(0))).toBe(0);
  });
});

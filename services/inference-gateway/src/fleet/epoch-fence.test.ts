// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { EpochFence } from "./epoch-fence.ts";

describe("epoch fence", () => {
  it("obeys callers without an epoch until a leader was heard", () => {
    const fence = new EpochFence();
    fence.pass(0n);
    fence.pass(5n);
    expect(() => fence.pass(0n)).toThrow(/epoch 5 leads/);
  });

  it("obeys the newest leader again and again, and no older one", () => {
    const fence = new EpochFence();
    for (const epoch of [3n, 3n, 7n, 7n]) fence.pass(epoch);
    expect(() => fence.pass(6n)).toThrow(expect.objectContaining({ code: "STALE_EPOCH" }));
    expect(fence.highest).toBe(7n);
    fence.pass(8n);
  });
});

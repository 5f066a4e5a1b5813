// SPDX-License-Identifier: Apache-2.0
import { Purpose } from "@whetstone/proto/types/v1/types";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admissibleBatches, validationDue, versionIsServed } from "./admission.ts";

const train = { steps: 10, maxPolicyLag: 1, purpose: Purpose.TRAIN } as const;

describe("admissibleBatches", () => {
  it("opens with the first lag + 1 batches", () => {
    expect(admissibleBatches(train, { liveVersion: 0, dispatchedBatches: 0 })).toEqual([0, 1]);
  });
  it("admits nothing twice and nothing past the last step", () => {
    expect(admissibleBatches(train, { liveVersion: 3, dispatchedBatches: 5 })).toEqual([]);
    expect(admissibleBatches(train, { liveVersion: 10, dispatchedBatches: 9 })).toEqual([9]);
  });
  it("never admits a batch whose tokens could be too old (I3)", () => {
    fc.assert(
      fc.property(fc.nat(8), fc.nat(30), fc.nat(30), (maxPolicyLag, liveVersion, dispatchedBatches) => {
        const batches = admissibleBatches({ ...train, steps: 40, maxPolicyLag }, { liveVersion, dispatchedBatches });
        for (const batch of batches) expect(liveVersion).toBeGreaterThanOrEqual(batch - maxPolicyLag);
      }),
    );
  });
});

describe("validationDue", () => {
  const when = { everySteps: 4, atStart: false, atEnd: true };
  const validation = { isHeldOut: false, ...when, concurrency: Infinity, variants: [] };
  it("follows the flags and the period", () => {
    const due = Array.from({ length: 11 }, (_, step) => step).filter((step) =>
      validationDue({ steps: 10, validation }, step),
    );
    expect(due).toEqual([4, 8, 10]);
  });

  it("needs no engine with the new weights where the trainer evaluates", () => {
    const job = { steps: 10, purpose: Purpose.DEMONSTRATION as const, validation };
    expect([0, 4, 5].map((version) => versionIsServed(job, version))).toEqual([true, true, false]);
    const heldOut = { ...job, validation: { ...validation, isHeldOut: true } };
    expect([0, 4, 5].map((version) => versionIsServed(heldOut, version))).toEqual([true, false, false]);
  });
});

// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { withoutSampledEnd } from "./continuation.ts";

describe("withoutSampledEnd", () => {
  it.each([
    ["the end was sampled", "stop", [5, 9], [9, 1, 2], [1, 2]],
    ["an end of two tokens was sampled", "stop", [5, 9, 8], [9, 8, 1], [1]],
    ["another end was sampled", "stop", [5, 7], [9, 1], [9, 1]],
    // A template may end turns with plain text, which a cut answer may happen to end with too.
    ["the answer was cut where the end begins", "length", [5, 9], [9, 1], [9, 1]],
    ["nothing was sampled", "stop", [], [9, 1], [9, 1]],
  ])("%s", (...[, finishReason, completionIds, rest, expected]) => {
    expect(withoutSampledEnd({ finishReason, completionIds }, rest)).toEqual(expected);
  });
});

// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { describe, expect, it } from "vitest";
import { limitsOf } from "./limits.ts";

describe("limits of a task", () => {
  it("go to the engine under its names", () => {
    const task = create(RolloutTaskSchema, {
      limits: {
        maxSteps: 7,
        accumulateThinking: false,
        disableThinking: true,
        episodeTimeout: durationFromMs(9_500),
        phaseTimeouts: { reset: durationFromMs(1_500), close: durationFromMs(250) },
      },
    });
    expect(limitsOf(task)).toMatchObject({
      maxSteps: 7,
      accumulateThinking: false,
      disableThinking: true,
      trajectoryTimeoutMs: 9_500,
      phaseTimeoutsMs: { reset: 1_500, model: undefined, step: undefined, reward: undefined, close: 250 },
    });
  });

  it("that are absent are the contract's, and a phase without a bound stays so", () => {
    const { phaseTimeoutsMs, ...limits } = limitsOf(create(RolloutTaskSchema, {}));
    expect(phaseTimeoutsMs).toBeUndefined();
    expect(limits).toMatchObject({
      maxSteps: 5,
      trajectoryTimeoutMs: 300_000,
      retryLimit: 2,
      accumulateThinking: true,
    });
  });
});

// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";

import { ValidationTally } from "./validation-result.ts";

const episode = (isCorrect: boolean, failureClass = FailureClass.NONE) =>
  create(EpisodeSummarySchema, { isCorrect, reward: isCorrect ? 1 : 0, failureClass });

describe("ValidationTally", () => {
  it("leaves out what failed for reasons that are not the policy's (I6); pass@k over the tasks with k scored", () => {
    const tasks = [
      [episode(true), episode(false), episode(false), episode(true)],
      [episode(false), episode(false), episode(true, FailureClass.ENVIRONMENT), episode(false, FailureClass.POLICY)],
      [episode(false, FailureClass.INFRASTRUCTURE)],
    ];
    const tally = new ValidationTally(4);
    for (const [index, summaries] of tasks.entries()) for (const summary of summaries) tally.add(index, summary);
    const score = tally.score();
    expect(score).toMatchObject({ tasks: 2, episodes: 7, voided: 2, success: 2 / 7, meanReward: 2 / 7 });
    expect(score.passAtK[1]).toBeCloseTo(0.25, 12);
    expect(score.passAtK[2]).toBeCloseTo((1 - 1 / 6) / 2, 12);
    expect(score.passAtK[4]).toBe(1);
  });
});

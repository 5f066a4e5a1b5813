// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { JobSchema, StepRecordSchema, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { stepLine, validationLine, watchScreen } from "./watch-view.ts";

const commonestFailure = "ENVIRONMENT step: no board (64 times)";

describe("where nothing could be scored", () => {
  it("a step has dashes and the reason, no reward of 0", () => {
    const step = create(StepRecordSchema, { voided: 64, commonestFailure, metrics: { "reward/mean": 0, loss: 0 } });
    expect(stepLine(step, 3)).toBe(
      `step 1/3  reward –  loss –  0 of 64 episodes trained; commonest: ${commonestFailure}`,
    );
  });

  it("a validation has dashes and the reason, no success of 0 %", () => {
    const result = create(ValidationResultSchema, { step: 1, variant: "greedy", voided: 64, commonestFailure });
    expect(validationLine(result)).toBe(
      `validation after step 1, greedy: success –  reward –  (0 of 64 episodes scored; commonest: ${commonestFailure}, 0.0s)`,
    );
  });
});

it("draws a curve from the second step on: one step, all that is known of a job that is looked at, has none", () => {
  const steps = [0.25, 0.5].map((reward) =>
    create(StepRecordSchema, { episodes: 8, metrics: { "reward/mean": reward } }),
  );
  const screen = (count: number) =>
    watchScreen({ job: create(JobSchema), steps: steps.slice(0, count), validations: [] }, 80, (_, text) => text);
  expect(screen(1).filter((line) => line.includes("reward"))).toEqual(["reward      0.25 mean of the last step"]);
  expect(screen(1).join("\n")).not.toContain("┤");
  expect(screen(2).join("\n")).toContain("└ step 1");
});

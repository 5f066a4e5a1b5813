// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { expect, it } from "vitest";

import { EvalProgress } from "./eval-progress.ts";

const scored = create(EpisodeSummarySchema, { failureClass: FailureClass.NONE, isCorrect: true, reward: 1 });
const late = create(EpisodeSummarySchema, { failureClass: FailureClass.DEADLINE });
const broken = create(EpisodeSummarySchema, { failureClass: FailureClass.GRADER });
const plain = (_colour: string, text: string): string => text;

it("tells what was played, how good it was, and how long the rest takes at the latest pace", () => {
  let nowMs = 0;
  const progress = new EvalProgress(1_000, () => nowMs);
  progress.setJob(create(JobSchema, { spec: { name: "e" }, status: { phase: JobPhase.RUNNING, message: "busy" } }));
  for (let n = 0; n < 100; n += 1) progress.add(scored); // Sealed before, told at once.
  expect(progress.screen(100, plain)).toEqual([
    "e  RUNNING",
    expect.stringMatching(/▏ 100\/1,000 episodes {2}success 100/),
  ]);
  for (let n = 0; n < 200; n += 1) {
    nowMs += 50;
    progress.add(n % 4 === 0 ? late : n % 4 === 1 ? broken : scored);
  }
  expect(progress.line()).toBe("300/1,000 episodes  success 80.0%  reward 0.8  50 voided");
  expect(progress.screen(100, plain)[1]).toMatch(/ 20\/s, about 35s left$/);
});

it("without a known end there is neither bar nor time left; a job that waits says why", () => {
  const progress = new EvalProgress(undefined, () => 0);
  progress.setJob(create(JobSchema, { spec: { name: "e" }, status: { phase: JobPhase.QUEUED, message: "engines" } }));
  progress.add(broken);
  expect(progress.screen(100, plain)).toEqual(["e  QUEUED  engines", "1 episodes  1 voided"]);
});

// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createMetrics } from "@whetstone/telemetry";
import { expect, it } from "vitest";
import { showStep } from "./step-gauges.ts";

it("shows the newest step, without names that have no end", async () => {
  const metrics = createMetrics({ component: "controller", processMetrics: false });
  const show = (step: number, values: Record<string, number>) =>
    showStep(metrics, create(StepRecordSchema, { step, metrics: values }));
  show(0, { loss: 0.5, "kl/reference": 2, "episode/mine": 1 });
  show(1, { loss: 0.25, "batch/solve_none": 3 });
  const text = await metrics.render();
  const lines = text.split("\n").filter((line) => line.startsWith("whetstone_"));
  expect(lines).toEqual([
    'whetstone_training_step{component="controller"} 1',
    'whetstone_training{name="loss",component="controller"} 0.25',
    'whetstone_training{name="batch/solve_none",component="controller"} 3',
  ]);
});

// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createMetrics } from "@whetstone/telemetry";
import { expect, it } from "vitest";
import { hideSteps, showStep } from "./step-gauges.ts";

it("shows the newest step of each job, without names that have no end, until the job ends", async () => {
  const metrics = createMetrics({ component: "controller", processMetrics: false });
  const show = (job: string, step: number, values: Record<string, number>) =>
    showStep(metrics, job, create(StepRecordSchema, { step, metrics: values }));
  const lines = async () => (await metrics.render()).split("\n").filter((line) => line.startsWith("whetstone_"));
  show("a", 0, { loss: 0.5, "kl/reference": 2, "episode/mine": 1 });
  show("b", 7, { loss: 0.125 });
  show("a", 1, { loss: 0.25, "batch/solve_none": 3 });
  expect(await lines()).toEqual([
    'whetstone_training_step{job="a",component="controller"} 1',
    'whetstone_training_step{job="b",component="controller"} 7',
    'whetstone_training{job="a",name="loss",component="controller"} 0.25',
    'whetstone_training{job="b",name="loss",component="controller"} 0.125',
    'whetstone_training{job="a",name="batch/solve_none",component="controller"} 3',
  ]);
  hideSteps(metrics, "a");
  expect(await lines()).toEqual([
    'whetstone_training_step{job="b",component="controller"} 7',
    'whetstone_training{job="b",name="loss",component="controller"} 0.125',
  ]);
});

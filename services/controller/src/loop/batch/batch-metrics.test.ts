// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { VoidedEntrySchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { expect, it } from "vitest";
import { batchMetrics } from "./batch-metrics.ts";

const voided = (failureClass: FailureClass, reason: string) => create(VoidedEntrySchema, { failureClass, reason });

it("counts what was voided by class and by reason", () => {
  const metrics = batchMetrics(
    [create(EpisodeSummarySchema, { reward: 2 })],
    [
      voided(FailureClass.ENVIRONMENT, "RetriesExhausted"),
      voided(FailureClass.GRADER, "RetriesExhausted"),
      voided(FailureClass.ENVIRONMENT, "RetriesExhausted"),
      voided(FailureClass.NONE, "GroupIncomplete"),
    ],
  );
  const own = Object.fromEntries(Object.entries(metrics).filter(([name]) => name.startsWith("voided/")));
  expect(own).toEqual({
    "voided/environment": 2,
    "voided/grader": 1,
    "voided/reason/RetriesExhausted": 3,
    "voided/reason/GroupIncomplete": 1,
  });
  expect(metrics).toMatchObject({ "rollout/voided": 4, "rollout/reward": 2 });
});

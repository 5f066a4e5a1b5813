// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { VoidedEntrySchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSummarySchema, FailureClass, TerminationReason } from "@whetstone/proto/types/v1/types";
import { expect, it } from "vitest";
import { BatchMetrics } from "./batch-metrics.ts";
import { keptSummary } from "../../../test-support/kept-summary.ts";

const voided = (failureClass: FailureClass, reason: string) => create(VoidedEntrySchema, { failureClass, reason });

it("counts what was voided by class and by reason", () => {
  const batch = new BatchMetrics();
  batch.add(keptSummary(create(EpisodeSummarySchema, { reward: 2 })));
  batch.addVoided(voided(FailureClass.ENVIRONMENT, "RetriesExhausted"));
  batch.addVoided(voided(FailureClass.GRADER, "RetriesExhausted"));
  batch.addVoided(voided(FailureClass.ENVIRONMENT, "RetriesExhausted"));
  batch.addVoided(voided(FailureClass.NONE, "GroupIncomplete"));
  const metrics = batch.metrics();
  const own = Object.fromEntries(Object.entries(metrics).filter(([name]) => name.startsWith("voided/")));
  expect(own).toEqual({
    "voided/environment": 2,
    "voided/grader": 1,
    "voided/reason/RetriesExhausted": 3,
    "voided/reason/GroupIncomplete": 1,
  });
  expect(metrics).toMatchObject({ "rollout/voided": 4, "rollout/reward": 2 });
});

it("takes means over the trained, in seconds, and shares of how they ended; of none there are no means", () => {
  const seconds = (count: number) => ({ total: { seconds: BigInt(count) }, model: { seconds: 1n } });
  const batch = new BatchMetrics();
  expect(batch.metrics()).toEqual({ "rollout/episodes": 0, "rollout/voided": 0 });
  const ended = TerminationReason.ENV_DONE;
  const one = { isCorrect: true, reward: 1, steps: 4, sampledTokens: 10, promptTokens: 100, attempt: 2 };
  batch.add(keptSummary(create(EpisodeSummarySchema, { ...one, timing: seconds(3), terminationReason: ended })));
  batch.add(keptSummary(create(EpisodeSummarySchema, { timing: seconds(1), attempt: 1, terminationReason: ended })));
  expect(batch.metrics()).toEqual({
    ...{ "rollout/episodes": 2, "rollout/voided": 0, "rollout/success": 0.5, "rollout/reward": 0.5 },
    ...{ "rollout/steps": 2, "rollout/sampled_tokens": 5, "rollout/prompt_tokens": 50, "rollout/retried": 0.5 },
    ...{
      "rollout/seconds": 2,
      "rollout/model_seconds": 1,
      [`rollout/ended/${TerminationReason[ended].toLowerCase()}`]: 1,
    },
  });
});

// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { expect, it } from "vitest";
import { trainersReason } from "./failure-reason.ts";

it.each<[unknown, string | undefined]>([
  [new WhetstoneError("TRAINER_FAILED", "m", { context: { reason: "LogprobMismatch" } }), "LogprobMismatch"],
  [new WhetstoneError("TRAINER_FAILED", "m", { context: { reason: "a sentence" } }), undefined],
  [new WhetstoneError("TRAINER_FAILED", "m"), undefined],
  [new Error("m"), undefined],
])("names what the trainer says ended the job: %s", (error, reason) => {
  expect(trainersReason(error)).toBe(reason);
});

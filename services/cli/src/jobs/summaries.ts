// SPDX-License-Identifier: Apache-2.0
/** Steps and validations as the SDK's callers see them: plain numbers. */
import type { StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import type { StepSummary, ValidationSummary } from "@whetstone/sdk";

import { seconds } from "../terminal/watch-view.ts";

export function stepSummary(record: StepRecord): StepSummary {
  const { step, metrics, episodes, voided } = record;
  return {
    step,
    policyVersion: Number(record.policyVersion),
    metrics: { ...metrics },
    episodes,
    voided,
    tokensSampled: Number(record.tokensSampled),
    tokensTrained: Number(record.tokensTrained),
    durationMs: seconds(record.timing?.total) * 1000,
  };
}

export function validationSummary(result: ValidationResult): ValidationSummary {
  const { step, variant, tasks, episodes, voided, success, meanReward, passAtK, metrics } = result;
  const counts = { step, variant, tasks, episodes, voided };
  return { ...counts, success, meanReward, passAtK: { ...passAtK }, metrics: { ...metrics } };
}

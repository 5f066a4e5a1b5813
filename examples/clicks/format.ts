// SPDX-License-Identifier: Apache-2.0
// SFT on invented pages and clicks by chance: the form of an answer, and nothing of which element a goal asks for.
import { defineJob, sft } from "@whetstone/sdk";

const DEMONSTRATIONS = 4096;
const STEPS = 8;

export default defineJob({
  name: "clicks-format",
  train: { jsonl: "../../.whetstone/clicks/demonstrations.jsonl" },
  algorithm: sft({
    learningRate: 0.001,
    beta2: 0.95,
    warmupSteps: 1,
    finalRateShare: 0.1,
    miniBatches: 2,
  }),
  loop: { steps: STEPS, batchGroups: DEMONSTRATIONS / STEPS },
  limits: { maxPromptTokens: 256, maxResponseTokens: 4 },
});

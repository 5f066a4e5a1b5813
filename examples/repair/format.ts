// SPDX-License-Identifier: Apache-2.0
// SFT on right functions and on edits drawn at random: programs and the form of an answer, and nothing of which operator is wrong.
import { defineJob, sft } from "@whetstone/sdk";

const DEMONSTRATIONS = 5120;
const STEPS = 8;

export default defineJob({
  name: "repair-format",
  train: { jsonl: "../../.whetstone/repair/demonstrations.jsonl" },
  algorithm: sft({
    learningRate: 0.001,
    beta2: 0.95,
    warmupSteps: 1,
    finalRateShare: 0.1,
    miniBatches: 16,
    epochs: 3,
  }),
  loop: { steps: STEPS, batchGroups: DEMONSTRATIONS / STEPS },
  limits: { maxPromptTokens: 128, maxResponseTokens: 128 },
});

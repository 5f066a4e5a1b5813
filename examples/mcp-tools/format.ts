// SPDX-License-Identifier: Apache-2.0
// SFT on invented notes and calls by chance: the form of an answer, and nothing of what leads to it.
import { defineJob, sft } from "@whetstone/sdk";

const DEMONSTRATIONS = 4096;
const STEPS = 8;

export default defineJob({
  name: "mcp-tools-format",
  train: { jsonl: "../../.whetstone/mcp-tools/demonstrations.jsonl" },
  algorithm: sft({
    learningRate: 0.001,
    beta2: 0.95,
    warmupSteps: 1,
    finalRateShare: 0.1,
    miniBatches: 2,
  }),
  loop: { steps: STEPS, batchGroups: DEMONSTRATIONS / STEPS },
  limits: { maxPromptTokens: 256, maxResponseTokens: 8 },
});

// SPDX-License-Identifier: Apache-2.0
// GRPO on functions with one wrong operator: each answer is tested in sandboxes.
import { defineJob, grpo } from "@whetstone/sdk";
import { Repairer } from "./agent.ts";

const sampling = { temperature: 1, maxTokens: 4 };

export default defineJob({
  name: "repair",
  agent: Repairer,
  environment: { kind: "code", args: { reward: "all", memoryMiB: 256 } },
  train: { jsonl: "../../.whetstone/repair/train.jsonl" },
  validation: {
    dataset: { jsonl: "../../.whetstone/repair/heldout.jsonl" },
    atStart: true,
    atEnd: true,
    variants: [
      { name: "greedy", sampling: { ...sampling, temperature: 0 } },
      { name: "sampled", sampling },
    ],
  },
  algorithm: grpo({
    groupSize: 8,
    lossDenominator: "signal",
    entropyCoefficient: 0.03,
    learningRate: 0.0005,
    beta2: 0.95,
    warmupSteps: 4,
    finalRateShare: 0.2,
    miniBatches: 4,
    epochs: 2,
    clipHigh: 0.28,
  }),
  loop: { steps: 14, batchGroups: 32, maxPolicyLag: 1, checkpointsKept: 2 },
  sampling,
  limits: { maxSteps: 1, maxPromptTokens: 128, maxResponseTokens: 8, episodeTimeout: "120s" },
});

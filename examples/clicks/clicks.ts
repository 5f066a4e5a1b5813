// SPDX-License-Identifier: Apache-2.0
// GRPO on pages of MiniWoB++: a page in a browser says whether the right element was clicked.
import { defineJob, grpo } from "@whetstone/sdk";
import { Clicker } from "./agent.ts";

/** Only the likeliest letters, and the entropy bonus is over those: over all tokens it makes answers likelier that mean nothing. */
const sampling = { temperature: 1, maxTokens: 2, topK: 6, minP: 0.01 };

export default defineJob({
  name: "clicks",
  agent: Clicker,
  environment: { kind: "browser", args: { maxSteps: 1, quietMs: 0 } },
  train: { jsonl: "../../.whetstone/clicks/train.jsonl" },
  validation: {
    dataset: { jsonl: "../../.whetstone/clicks/heldout.jsonl" },
    atStart: true,
    atEnd: true,
    variants: [
      { name: "greedy", sampling: { ...sampling, temperature: 0 } },
      { name: "sampled", sampling },
    ],
  },
  algorithm: grpo({
    groupSize: 4,
    lossDenominator: "signal",
    entropyCoefficient: 0.05,
    // Without it a run became certain of wrong answers after ten steps, and learned nothing more.
    kl: { coefficient: 0.1 },
    learningRate: 0.001,
    beta2: 0.95,
    warmupSteps: 2,
    finalRateShare: 0.2,
    miniBatches: 4,
    // A page in a browser costs more than a pass over it.
    epochs: 4,
    wholeGroups: true,
    clipHigh: 0.28,
  }),
  loop: { steps: 16, batchGroups: 24, maxPolicyLag: 1, checkpointsKept: 2 },
  sampling,
  limits: { maxSteps: 1, maxPromptTokens: 256, maxResponseTokens: 4, episodeTimeout: "300s" },
});

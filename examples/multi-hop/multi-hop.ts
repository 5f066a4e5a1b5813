// SPDX-License-Identifier: Apache-2.0
// GRPO on questions whose answer stands in another passage than the name they ask about: the environment `search` grades the answer.
import { resolve } from "node:path";
import { defineJob, grpo } from "@whetstone/sdk";
import { Seeker } from "./agent.ts";

const FOLDER = "../../.whetstone/multi-hop";
const TURNS = 4;
/** Only the likeliest letters, and the entropy bonus is over those: over all tokens it makes answers likelier that mean nothing. */
const sampling = { temperature: 1, maxTokens: 2, topK: 8, minP: 0.01 };

export default defineJob({
  name: "multi-hop",
  agent: Seeker,
  environment: {
    kind: "search",
    args: {
      corpus: resolve(".whetstone/multi-hop/corpus.jsonl"),
      grammar: "tags",
      results: 1,
      maxSteps: TURNS,
      // Search-R1's rewards of form: little for an answer in its form, and more where the truth stood in what was found.
      format: { structure: 0.05, retrieval: 0.2 },
    },
  },
  train: { jsonl: `${FOLDER}/train.jsonl` },
  validation: {
    dataset: { jsonl: `${FOLDER}/heldout.jsonl` },
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
    entropyCoefficient: 0.05,
    // Without it a run of two became certain of answers in the right form that were all wrong, from which nothing can be learned.
    kl: { coefficient: 0.1 },
    learningRate: 0.0007,
    beta2: 0.95,
    warmupSteps: 2,
    finalRateShare: 0.2,
    miniBatches: 4,
    epochs: 2,
    wholeGroups: true,
    clipHigh: 0.28,
  }),
  loop: { steps: 30, batchGroups: 64, maxPolicyLag: 1, checkpointsKept: 2 },
  sampling,
  limits: {
    maxSteps: TURNS,
    maxPromptTokens: 512,
    maxResponseTokens: 8,
    enforcePromptLimitEachStep: true,
    episodeTimeout: "120s",
  },
});

import { defineJob, grpo } from "@whetstone/sdk";

import { TypingAgent } from "./agent.ts";
import { TypingEnv } from "./environment.ts";

/** `npm run train`, or with other settings: `npx whet train src/job.ts --set loop.steps=100`. */
export default defineJob({
  // model: { path: "models/mine" } names a folder in Hugging Face layout. Without it: a small random model, made on the spot.
  agent: TypingAgent,
  environment: { kind: TypingEnv, args: { turns: 2 } },
  train: { seeds: { first: 1, count: 100_000 } },
  validation: {
    dataset: { seeds: { first: 1_000_000, count: 20 } },
    everySteps: 10,
    variants: [{ name: "greedy", sampling: { temperature: 0, maxTokens: 8 } }],
  },
  algorithm: grpo({ groupSize: 8, learningRate: 1e-3, clipHigh: 0.28, epochs: 2, miniBatches: 4 }),
  loop: { steps: 40, batchGroups: 8, maxPolicyLag: 1 },
  sampling: { temperature: 1, maxTokens: 8 },
  limits: { maxSteps: 2, maxPromptTokens: 64, maxResponseTokens: 128, episodeTimeout: "60s" },
  seed: 1,
});

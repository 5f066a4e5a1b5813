// SPDX-License-Identifier: Apache-2.0
// GRPO on questions that only the tools of an MCP server can answer: each episode has a server and files of its own, in a sandbox.
import { defineJob, grpo } from "@whetstone/sdk";
import { Clerk, TOOLS } from "./agent.ts";
import { ROOT } from "./notes.ts";

const FOLDER = "../../.whetstone/mcp-tools";
const TURNS = 3;
/** Only the likeliest characters, and the entropy bonus is over those: over all tokens it makes answers likelier that mean nothing. */
const sampling = { temperature: 1, maxTokens: 3, topK: 8, minP: 0.01 };

export default defineJob({
  name: "mcp-tools",
  agent: Clerk,
  environment: {
    kind: "mcp",
    args: {
      command: ["node", "{servers}/@modelcontextprotocol/server-filesystem/dist/index.js", ROOT],
      tools: Object.values(TOOLS),
      grader: "exact",
      maxSteps: TURNS,
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
    learningRate: 0.001,
    beta2: 0.95,
    warmupSteps: 2,
    finalRateShare: 0.2,
    miniBatches: 4,
    // A server for each episode costs more than a pass over it.
    epochs: 4,
    wholeGroups: true,
    clipHigh: 0.28,
  }),
  loop: { steps: 12, batchGroups: 16, maxPolicyLag: 1, checkpointsKept: 2 },
  sampling,
  limits: {
    maxSteps: TURNS,
    maxPromptTokens: 256,
    maxResponseTokens: 9,
    enforcePromptLimitEachStep: true,
    episodeTimeout: "300s",
  },
});

// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { BOXED_INSTRUCTION, defineAgent, MathAgent } from "@whetstone/sdk";
import { z } from "zod";

const MathAgentArgs = z.strictObject({
  accumulateThinking: z.boolean().default(true).describe("earlier thinking stays in later prompts"),
  systemPrompt: z.string().default("").describe("empty: no system message"),
  instruction: z.string().default(BOXED_INSTRUCTION).describe("follows the question; empty: the question alone"),
});

export const mathAgent = defineAgent<z.output<typeof MathAgentArgs>>({
  kind: "math",
  description: 'Answers a question, and again after feedback; for the environments "math" and "math-revise".',
  parseArgs: (args) => parseOrThrow(MathAgentArgs, args, ""),
  argsSchema: z.toJSONSchema(MathAgentArgs, { io: "input" }),
  create: (options) => new MathAgent(options),
});

// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { BOXED_INSTRUCTION, defineAgent, MathAgent } from "@whetstone/sdk";
import { z } from "zod";

/** Asks the question, and again after feedback. */
function questionAgent(kind: string, description: string, instruction: string) {
  const Args = z.strictObject({
    accumulateThinking: z.boolean().default(true).describe("earlier thinking stays in later prompts"),
    systemPrompt: z.string().default("").describe("empty: no system message"),
    instruction: z.string().default(instruction).describe("follows the question; empty: the question alone"),
  });
  return defineAgent<z.output<typeof Args>>({
    kind,
    description,
    parseArgs: (args) => parseOrThrow(Args, args, ""),
    argsSchema: z.toJSONSchema(Args, { io: "input" }),
    create: (options) => new MathAgent(options),
  });
}

export const mathAgent = questionAgent(
  "math",
  'Answers a question, and again after feedback; for the environments "math" and "math-revise".',
  BOXED_INSTRUCTION,
);

export const codeAgent = questionAgent(
  "code",
  'Answers a question with a program, and again after what its tests said; for the environment "code".',
  "",
);

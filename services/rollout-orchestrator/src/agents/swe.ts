// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { defineAgent } from "@whetstone/sdk";
import { GRAMMARS, SWE_INSTANCE_TEMPLATE, SWE_SYSTEM_TEMPLATE, SweAgent } from "@whetstone/swe";
import { z } from "zod";

const SweAgentArgs = z.strictObject({
  grammar: z
    .enum(GRAMMARS)
    .default("tool-call")
    .describe(
      "how the model writes a call: function (R2E-Gym's <function=…>), bash-block (mini-swe-agent's one block a turn), tool-call (<tool_call>)",
    ),
  systemTemplate: z.string().default(SWE_SYSTEM_TEMPLATE).describe("{tools} is what may be called, and how"),
  instanceTemplate: z.string().default(SWE_INSTANCE_TEMPLATE).describe("{task} is what the environment says first"),
  stepsLeft: z.boolean().default(true).describe("each observation ends with the number of turns that are left"),
  warnAtTokens: z.number().int().min(0).default(0).describe("from so many tokens on it is asked to submit; 0: never"),
});

export const sweAgent = defineAgent<z.output<typeof SweAgentArgs>>({
  kind: "swe",
  description:
    'Repairs a repository with the tools of the environment, in one of three grammars; for "swe", "swe-bench" and "r2e-gym".',
  parseArgs: (args) => parseOrThrow(SweAgentArgs, args, ""),
  argsSchema: z.toJSONSchema(SweAgentArgs, { io: "input" }),
  create: (options) => new SweAgent(options),
});

// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { defineAgent } from "@whetstone/sdk";
import { TOOL_SYSTEM_PROMPT, ToolAgent } from "@whetstone/tools";
import { z } from "zod";

const ToolAgentArgs = z.strictObject({
  systemPrompt: z.string().default(TOOL_SYSTEM_PROMPT).describe("stands before the tools' descriptions"),
  describeTools: z
    .boolean()
    .default(true)
    .describe("the system prompt describes the tools that the environment offers"),
  images: z
    .boolean()
    .default(false)
    .meta({ showsImages: true })
    .describe("the model is shown the pictures that tools answer with, in a message of their own"),
});

export const toolAgent = defineAgent<z.output<typeof ToolAgentArgs>>({
  kind: "tool",
  description: 'Calls tools (<tool_call>, as Hermes and Qwen do) until it answers; for the environment "tool".',
  parseArgs: (args) => parseOrThrow(ToolAgentArgs, args, ""),
  argsSchema: z.toJSONSchema(ToolAgentArgs, { io: "input" }),
  create: (options) => new ToolAgent(options),
});

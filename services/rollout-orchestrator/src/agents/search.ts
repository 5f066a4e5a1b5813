// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { defineAgent } from "@whetstone/sdk";
import { SEARCH_QUESTION_TEMPLATE, SEARCH_SYSTEM_PROMPT, SearchAgent } from "@whetstone/search/agent";
import { z } from "zod";

const SearchAgentArgs = z.strictObject({
  systemPrompt: z
    .string()
    .default(SEARCH_SYSTEM_PROMPT)
    .describe("with tool calls: stands before the tool's description"),
  questionTemplate: z
    .string()
    .default(SEARCH_QUESTION_TEMPLATE)
    .describe("with tags: the first message; {question} is the task's"),
});

export const searchAgent = defineAgent<z.output<typeof SearchAgentArgs>>({
  kind: "search",
  description: 'Searches until it answers, by tool calls or in Search-R1\'s tags; for the environment "search".',
  parseArgs: (args) => parseOrThrow(SearchAgentArgs, args, ""),
  argsSchema: z.toJSONSchema(SearchAgentArgs, { io: "input" }),
  create: (options) => new SearchAgent(options),
});

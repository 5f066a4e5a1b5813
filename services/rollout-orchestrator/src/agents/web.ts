// SPDX-License-Identifier: Apache-2.0
import { WEB_SYSTEM_TEMPLATE, WebAgent } from "@whetstone/browser/agent";
import { parseOrThrow } from "@whetstone/core";
import { defineAgent } from "@whetstone/sdk";
import { z } from "zod";

const WebAgentArgs = z.strictObject({
  systemTemplate: z
    .string()
    .default(WEB_SYSTEM_TEMPLATE)
    .describe("{actions} is what may be done; empty: no system message"),
  history: z
    .enum(["all", "last"])
    .default("all")
    .describe(
      "all: every page that was seen stays in the conversation; last: the newest page alone, with the actions so far",
    ),
  images: z
    .boolean()
    .default(false)
    .meta({ showsImages: true })
    .describe("the model is shown the pictures of pages (the environment's screenshot) beside their text"),
});

export const webAgent = defineAgent<z.output<typeof WebAgentArgs>>({
  kind: "web",
  description:
    'Reads pages as text and answers with one action in BrowserGym\'s grammar; for the environment "browser".',
  parseArgs: (args) => parseOrThrow(WebAgentArgs, args, ""),
  argsSchema: z.toJSONSchema(WebAgentArgs, { io: "input" }),
  create: (options) => new WebAgent(options),
});

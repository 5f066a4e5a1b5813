// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { defineAgent } from "@whetstone/sdk";
import { z } from "zod";
import { CompactFrozenLakeAgent } from "./frozenlake-compact.ts";
import { FrozenLakeAgent } from "./frozenlake-standard.ts";

const FrozenLakeAgentArgs = z.strictObject({
  variant: z
    .enum(["standard", "compact"])
    .default("standard")
    .describe("standard: rLLM's conversation; compact: one board in, one letter out, no history"),
});

export const frozenLakeAgent = defineAgent<z.output<typeof FrozenLakeAgentArgs>>({
  kind: "frozenlake",
  description: "Walks over a frozen lake; the observation style of the environment must be the same as its variant.",
  parseArgs: (args) => parseOrThrow(FrozenLakeAgentArgs, args, ""),
  argsSchema: z.toJSONSchema(FrozenLakeAgentArgs, { io: "input" }),
  create: ({ variant }) => (variant === "compact" ? new CompactFrozenLakeAgent() : new FrozenLakeAgent()),
});

// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { defineEnvironment, FrozenLakeEnv, type FrozenLakeOptions } from "@whetstone/sdk";
import { z } from "zod";

export const FrozenLakeArgs = z.strictObject({
  size: z.number().int().min(3).max(10).default(8).describe("cells a side"),
  frozenProbability: z.number().gt(0).max(1).default(0.8).describe("share of cells that are no holes"),
  slippery: z.boolean().default(false).describe("with 2/3 the player slips to a side"),
  maxSteps: z.number().int().min(1).max(1000).optional().describe("turns; default 2 × size"),
  seed: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional().describe("of the map; default: the episode's"),
  observation: z.enum(["standard", "compact"]).default("standard").describe("compact: one character a cell"),
  stepDiscount: z.number().gt(0).max(1).default(1).describe("success pays stepDiscount^(steps - 1)"),
});

export const frozenLake = defineEnvironment<FrozenLakeOptions>({
  kind: "frozenlake",
  description: "Walk over a frozen lake to the goal, around the holes; every map can be won within maxSteps.",
  seedable: true,
  parseArgs: (args) => {
    const parsed = parseOrThrow(FrozenLakeArgs, args, "");
    return { ...parsed, maxSteps: parsed.maxSteps ?? 2 * parsed.size };
  },
  argsSchema: z.toJSONSchema(FrozenLakeArgs, { io: "input" }),
  create: (options) => new FrozenLakeEnv(options),
});

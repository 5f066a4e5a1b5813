// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { OpenEnvEnvironment } from "@whetstone/openenv";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import { z } from "zod";

const milliseconds = z.number().int().min(1).max(600_000);
const field = z.string().min(1).max(200).optional();

const OpenEnvArgs = z.strictObject({
  url: z.url({ protocol: /^(https?|wss?)$/u }).describe("of the server: http://127.0.0.1:8000"),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,100}$/u, "must be the name of a header"), z.string().max(10_000))
    .default({})
    .describe("of every connection"),
  reset: z
    .record(z.string().max(200), z.json())
    .default({})
    .describe("for the server's reset, beside seed and episode_id; usually it comes with the task"),
  seed: z.number().int().min(0).optional().describe("of the server's reset. Default: the episode's"),
  actionField: field.describe(
    "of the action that takes the agent's text. Default: the only one of the server's schema",
  ),
  observationField: field.describe("that the agent sees. Default: the only one, else all as JSON"),
  startTimeoutMs: milliseconds.default(30_000).describe("to connect and reset, waiting for a free session included"),
  callTimeoutMs: milliseconds.default(60_000).describe("of one step"),
  maxMessageBytes: z
    .number()
    .int()
    .min(1_000)
    .max(64 * 2 ** 20)
    .default(4 * 2 ** 20)
    .describe("of one message of the server's; a longer one is its failure"),
});

/** It says nothing of seeds: what a server makes of them is its own affair. */
export const openEnv: RegisteredEnvironment = defineEnvironment<z.output<typeof OpenEnvArgs>>({
  kind: "openenv",
  description: "An environment behind an OpenEnv server.",
  parseArgs: (raw) => parseOrThrow(OpenEnvArgs, raw, ""),
  argsSchema: z.toJSONSchema(OpenEnvArgs, { io: "input" }),
  create: (args) => new OpenEnvEnvironment(args),
});

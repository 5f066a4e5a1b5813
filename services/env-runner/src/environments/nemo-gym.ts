// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { nemoGymEnvironment, ResponsesParams } from "@whetstone/nemo-gym";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import { z } from "zod";

/** The other fields are the row's own: they go to the server as they are. */
const NemoGymArgs = z.looseObject({
  url: z.url({ protocol: /^https?$/u }).describe("of the resource server"),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,100}$/u, "must be the name of a header"), z.string().max(10_000))
    .default({})
    .describe("of every request"),
  maxSteps: z.number().int().min(1).max(1000).default(10).describe("turns"),
  callTimeoutMs: z.number().int().min(1).max(600_000).default(60_000).describe("of one request"),
  maxOutputCharacters: z.number().int().min(10).max(1_000_000).default(8_000).describe("of one tool's output"),
  maxMessageBytes: z
    .number()
    .int()
    .min(1_000)
    .max(64 * 2 ** 20)
    .default(4 * 2 ** 20)
    .describe("of one answer of the server's"),
  responses_create_params: ResponsesParams.describe(
    "what the model is asked; it comes with the task, a row of the server's data",
  ),
});

export const nemoGym: RegisteredEnvironment = defineEnvironment<z.output<typeof NemoGymArgs>>({
  kind: "nemo-gym",
  description: "A row of the data of a NeMo Gym resource server, with its tools, verified by the server.",
  parseArgs: (raw) => parseOrThrow(NemoGymArgs, raw, ""),
  argsSchema: z.toJSONSchema(NemoGymArgs, { io: "input" }),
  create: ({ url, headers, maxSteps, callTimeoutMs, maxOutputCharacters, maxMessageBytes, ...row }) => {
    const limits = { maxSteps, callTimeoutMs, maxOutputCharacters, maxMessageBytes };
    return nemoGymEnvironment({ url, headers, ...limits, row, params: row.responses_create_params });
  },
});

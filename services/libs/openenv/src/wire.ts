// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

// The messages on OpenEnv's WebSocket, one environment a connection, as openenv-core 0.3.0 has them.

/** Codes of OpenEnv's error messages. */
export const OPENENV_ERRORS = [
  "INVALID_JSON",
  "UNKNOWN_TYPE",
  "VALIDATION_ERROR",
  "EXECUTION_ERROR",
  "CAPACITY_REACHED",
  "FACTORY_ERROR",
  "SESSION_ERROR",
] as const;
export type OpenEnvErrorCode = (typeof OPENENV_ERRORS)[number];

const reward = z.union([z.number(), z.boolean().transform(Number)]).nullable();

/** The data of an answer to `reset` and `step`. */
export const ObservationData = z.object({
  observation: z.record(z.string(), z.unknown()),
  reward: reward.default(null),
  done: z.boolean().default(false),
});
export type ObservationData = z.output<typeof ObservationData>;

const errorData = z.object({
  message: z.string().default("no message"),
  code: z.string().default("none"),
  /** Pydantic's list, where an action is not what the environment's schema says. */
  errors: z
    .array(z.object({ loc: z.array(z.union([z.string(), z.number()])).default([]), msg: z.string().default("") }))
    .default([]),
});

/** What a server says. */
export const ServerMessage = z.discriminatedUnion("type", [
  z.object({ type: z.literal("observation"), data: ObservationData }),
  z.object({ type: z.literal("error"), data: errorData }),
]);
export type ServerMessage = z.output<typeof ServerMessage>;

/** What a client says. */
export const ClientMessage = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("reset"),
    data: z
      .looseObject({ seed: z.number().int().min(0).nullish(), episode_id: z.string().max(255).nullish() })
      .default({}),
  }),
  z.object({ type: z.literal("step"), data: z.record(z.string(), z.unknown()) }),
  z.object({ type: z.literal("state") }),
  z.object({ type: z.literal("close") }),
]);
export type ClientMessage = z.output<typeof ClientMessage>;

/** The answer of `GET /schema`, as far as it is read. */
export const SchemaAnswer = z.object({
  action: z.object({
    properties: z.record(z.string(), z.looseObject({ type: z.string().optional() })).default({}),
    required: z.array(z.string()).default([]),
  }),
});
export type ActionSchema = z.output<typeof SchemaAnswer>["action"];

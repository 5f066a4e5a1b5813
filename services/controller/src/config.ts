// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

const port = z.coerce.number().int().min(0).max(65_535);

/** Settings of the controller, from WHETSTONE_* variables. */
export const ConfigSchema = z.strictObject({
  host: z.string().default("127.0.0.1"),
  grpcPort: port.default(0),
  metricsPort: port.default(0),
  natsUrl: z.string().default("nats://127.0.0.1:4222"),
  /** host:port of the gateway's FleetService. */
  fleetAddress: z.string(),
  trainerAddress: z.string(),
  envAddress: z.string(),
  orchestratorAddress: z.string(),
  /** Folder for runs: weights and checkpoints. Trainer and engines see it under the same path. */
  dataPath: z.string(),
  logLevel: z.enum(["trace", "debug", "info", "warn", "error"]).default("info"),
  supervised: z.string().default("0"),
  /** Bounds of the JetStream streams of one job. */
  maxTasks: z.coerce.number().int().min(1).default(65_536),
  maxEpisodeBytes: z.coerce
    .number()
    .int()
    .min(1)
    .default(16 * 2 ** 30),
});

export type Config = z.infer<typeof ConfigSchema>;

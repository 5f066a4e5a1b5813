// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

/** Settings of the env-runner, from WHETSTONE_* variables. */
export const ConfigSchema = z.strictObject({
  host: z.string().default("127.0.0.1"),
  /** EnvironmentService. 0 picks a free one. */
  grpcPort: z.number().int().min(0).max(65_535).default(9081),
  /** Sessions at once; one more is RESOURCE_EXHAUSTED. */
  slots: z.number().int().min(1).default(2048),
  /** Longest session, whatever deadline its caller gives. */
  sessionTimeoutMs: z.number().int().min(1).default(3_600_000),
  /** How long an environment may take to close. */
  closeTimeoutMs: z.number().int().min(1).default(5_000),
  /** At SIGTERM open sessions may go on for so long before they are handed back. 0: handed back at once. */
  drainMs: z.number().int().min(0).default(0),
  /** Most memory of one job's own code, MiB; more than that ends its process. */
  moduleMemoryMib: z.number().int().min(64).default(2048),
  /** A job's own code that does not answer for this long counts as hanging and is ended. */
  moduleHangMs: z.number().int().min(100).default(10_000),
  /** A job's process without an open session for this long is closed. */
  moduleIdleMs: z.number().int().min(100).default(300_000),
  /** Folder with ca.crt, tls.crt and tls.key: every connection is then encrypted, and both ends prove their roles. */
  tlsPath: z.string().optional(),
  /** Answers gRPC health in plain text, for probes; 0: off. */
  healthPort: z.number().int().min(0).max(65_535).default(0),
  /** 0: off. */
  metricsPort: z.number().int().min(0).max(65_535).default(0),
  logLevel: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
  /** Ends when standard input closes, so that nothing outlives a supervisor. */
  supervised: z.boolean().default(false),
});

export type EnvRunnerConfig = z.output<typeof ConfigSchema>;

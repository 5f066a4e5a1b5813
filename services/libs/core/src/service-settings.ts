// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

/** A TCP port. 0: picks a free one, or off. */
export const portSetting = (preset = 0) => z.number().int().min(0).max(65_535).default(preset);

/** What every service is told, from WHETSTONE_* variables. */
export const SERVICE_SETTINGS = {
  host: z.string().default("127.0.0.1"),
  /** Folder with ca.crt, tls.crt and tls.key: every connection is then encrypted, and both ends prove their roles. */
  tlsPath: z.string().optional(),
  /** Answers gRPC health in plain text, for probes; 0: off. */
  healthPort: portSetting(),
  /** Prometheus text in plain HTTP; 0: off. */
  metricsPort: portSetting(),
  logLevel: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
  /** Ends when standard input closes, so that nothing outlives a supervisor. */
  supervised: z.boolean().default(false),
} as const;

/** What a service that talks to NATS is told, too. */
export const NATS_SETTINGS = {
  natsUrl: z.string().min(1).default("nats://127.0.0.1:4222"),
  /** Credentials file of a NATS server that is not ours. */
  natsCredentials: z.string().optional(),
  /** Authorities of that server's certificate. Default, with a `tls://` URL: those of tlsPath. */
  natsCa: z.string().optional(),
} as const;

/** Where a service finds the object store, if it has one; endpoint, region and credentials are in AWS_* variables. */
export const OBJECT_STORE_SETTINGS = {
  objectStore: z
    .string()
    .regex(/^s3:\/\/[^/]+(\/[^/]+)*\/?$/, "must be s3://<bucket> or s3://<bucket>/<prefix>")
    .optional(),
  objectStoreStyle: z.enum(["path", "virtual"]).optional(),
} as const;

const POOL_ADDRESS = /^([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)=(\S+:\d+)$/;

/** What a service that asks env-runners is told where they stay for good. */
export const POOL_SETTINGS = {
  /** Pools beside the default one, "name=host:port" with commas between: EnvironmentService of their one env-runner. By name. */
  envPools: z
    .array(z.string().regex(POOL_ADDRESS, 'must be "<pool>=<host>:<port>"'))
    .default([])
    .transform(
      (pools): ReadonlyMap<string, string> =>
        new Map(pools.map((pool) => (POOL_ADDRESS.exec(pool) ?? []).slice(1, 3) as [string, string])),
    ),
} as const;

/** How the processes of jobs' own code are watched. */
export const MODULE_SETTINGS = {
  /** Most memory of one job's own code, MiB; more than that ends its process. */
  moduleMemoryMib: z.number().int().min(64).default(2048),
  /** A job's own code that does not answer for this long counts as hanging and is ended. */
  moduleHangMs: z.number().int().min(100).default(10_000),
} as const;

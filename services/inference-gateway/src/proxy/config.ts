// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

const port = z.number().int().min(0).max(65_535);

/** Settings of the proxy before an engine, from WHETSTONE_* variables. */
export const ProxyConfigSchema = z.strictObject({
  host: z.string().default("127.0.0.1"),
  /** Sampling, for the gateway. 0 picks a free one. */
  dataPort: port.default(8000),
  /** Everything, for the controller. 0 picks a free one. */
  controlPort: port.default(8001),
  /** /health and /metrics in plain text; 0: off. */
  healthPort: port.default(0),
  /** The engine, on this machine's loopback. */
  engineUrl: z.string().regex(/^http:\/\/\S+$/, 'must be "http://127.0.0.1:<port>"'),
  maxConnections: z.number().int().min(1).default(2048),
  /** Folder with ca.crt, tls.crt and tls.key: both ports then ask callers who they are. */
  tlsPath: z.string().optional(),
  logLevel: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
  supervised: z.boolean().default(false),
});

export type ProxyConfig = z.output<typeof ProxyConfigSchema>;

// SPDX-License-Identifier: Apache-2.0
import { OBJECT_STORE_SETTINGS, portSetting, SERVICE_SETTINGS } from "@whetstone/core";
import { z } from "zod";

const { host, tlsPath, logLevel, supervised } = SERVICE_SETTINGS;

/** Settings of the proxy before an engine, from WHETSTONE_* variables. */
export const ProxyConfigSchema = z.strictObject({
  ...{ host, tlsPath, logLevel, supervised },
  /** Sampling, for the gateway. 0 picks a free one. */
  dataPort: portSetting(8000),
  /** Everything, for the controller. 0 picks a free one. */
  controlPort: portSetting(8001),
  /** /health and /metrics in plain text; 0: off. */
  healthPort: portSetting(),
  /** The engine, on this machine's loopback. */
  engineUrl: z.string().regex(/^http:\/\/\S+$/, 'must be "http://127.0.0.1:<port>"'),
  /** What it speaks. Default: as it turns out when it answers. */
  engineKind: z.enum(["auto", "vllm", "sglang"]).default("auto"),
  /** Where fetched weights are kept, up to twice their size; the engine sees it under the same path. Absent: nothing is fetched. */
  weightsDir: z.string().min(1).optional(),
  /** Of jobs with weights.transport objectStore. */
  ...OBJECT_STORE_SETTINGS,
  /** A data folder that no other pod sees, and the controller that has pushed models: they are brought there by digest. */
  dataPath: z.string().min(1).optional(),
  artifactAddress: z.string().min(1).optional(),
  /** The model that the engine starts with, once this proxy listens. */
  modelPath: z.string().min(1).optional(),
  maxConnections: z.number().int().min(1).default(2048),
});

export type ProxyConfig = z.output<typeof ProxyConfigSchema>;

// SPDX-License-Identifier: Apache-2.0
// A program of its own: the guard before vLLM, in the engine's pod.
import { loadConfig } from "@whetstone/core";
import { runService } from "@whetstone/telemetry";
import { startProxy } from "./proxy/app.ts";
import { ProxyConfigSchema } from "./proxy/config.ts";

const config = loadConfig(ProxyConfigSchema, { env: process.env });
await runService({
  component: "engine-proxy",
  config,
  start: (logger) => startProxy(config, { logger }),
  describe: ({ dataUrl, controlUrl, healthUrl }) => ({ dataUrl, controlUrl, healthUrl }),
});

// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { runService } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const config = loadConfig(ConfigSchema, { env: process.env, ignoreEnv: ["WHETSTONE_METRICS_PORT"] });
await runService({
  component: "inference-gateway",
  config,
  start: (logger) => startApp(config, { logger }),
  describe: ({ httpUrl, agentsUrl, grpcAddress }) => ({ httpUrl, agentsUrl, grpcAddress }),
});

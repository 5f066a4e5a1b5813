// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { runService } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const config = loadConfig(ConfigSchema, { env: process.env });
await runService({
  component: "rollout-orchestrator",
  config,
  start: (logger) => startApp(config, { logger }),
  describe: ({ address }) => ({ address, pool: config.pool ?? "all", maxEpisodes: config.maxEpisodes }),
});

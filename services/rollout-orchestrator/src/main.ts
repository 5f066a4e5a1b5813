// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { createLogger, stopOnSignal } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const config = loadConfig(ConfigSchema, { env: process.env });
const logger = createLogger({ component: "rollout-orchestrator", level: config.logLevel });
const app = await startApp(config, { logger });
logger.info("ready", { address: app.address, pool: config.pool ?? "all", maxEpisodes: config.maxEpisodes });
stopOnSignal(() => app.close(), { supervised: config.supervised });

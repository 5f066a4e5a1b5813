// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { createLogger } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const config = loadConfig(ConfigSchema, { env: process.env });
const logger = createLogger({ component: "rollout-orchestrator", level: config.logLevel });
const app = await startApp(config, { logger });
logger.info("ready", { address: app.address, pool: config.pool, maxEpisodes: config.maxEpisodes });

const STOP_WITHIN_MS = 5_000;

function stop(): void {
  setTimeout(() => process.exit(1), STOP_WITHIN_MS).unref();
  void app.close().then(() => process.exit(0));
}

process.once("SIGTERM", stop);
process.once("SIGINT", stop);
if (config.supervised) process.stdin.resume().once("end", stop);

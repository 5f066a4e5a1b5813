// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { createLogger } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const config = loadConfig(ConfigSchema, { env: process.env, ignoreEnv: ["WHETSTONE_METRICS_PORT"] });
const logger = createLogger({ component: "inference-gateway", level: config.logLevel });
const app = await startApp(config, { logger });
logger.info("ready", { httpUrl: app.httpUrl, grpcAddress: app.grpcAddress });

const STOP_WITHIN_MS = 5000;

function stop(): void {
  setTimeout(() => process.exit(1), STOP_WITHIN_MS).unref();
  void app.close().then(() => process.exit(0));
}

process.once("SIGTERM", stop);
process.once("SIGINT", stop);
if (config.supervised) process.stdin.resume().once("end", stop);

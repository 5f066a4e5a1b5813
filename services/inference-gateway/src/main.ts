// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { createLogger, stopOnSignal } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const config = loadConfig(ConfigSchema, { env: process.env, ignoreEnv: ["WHETSTONE_METRICS_PORT"] });
const logger = createLogger({ component: "inference-gateway", level: config.logLevel });
const app = await startApp(config, { logger });
logger.info("ready", { httpUrl: app.httpUrl, grpcAddress: app.grpcAddress });
stopOnSignal(() => app.close(), { supervised: config.supervised });

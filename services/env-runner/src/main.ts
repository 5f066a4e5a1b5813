// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { createLogger, stopOnSignal } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

/** After the last session: environments close, the server ends. */
const CLOSING_MS = 5_000;

const config = loadConfig(ConfigSchema, { env: process.env });
const logger = createLogger({ component: "env-runner", level: config.logLevel });
const app = await startApp(config, { logger });
logger.info("ready", { address: app.address });
stopOnSignal(() => app.close(), { supervised: config.supervised, withinMs: config.drainMs + CLOSING_MS });

// SPDX-License-Identifier: Apache-2.0
// A program of its own: the guard before vLLM, in the engine's pod.
import { loadConfig } from "@whetstone/core";
import { createLogger, stopOnSignal } from "@whetstone/telemetry";
import { startProxy } from "./proxy/app.ts";
import { ProxyConfigSchema } from "./proxy/config.ts";

const config = loadConfig(ProxyConfigSchema, { env: process.env });
const logger = createLogger({ component: "engine-proxy", level: config.logLevel });
const { [Symbol.asyncDispose]: close, ...urls } = await startProxy(config, { logger });
logger.info("ready", { ...urls });
stopOnSignal(async () => close(), { supervised: config.supervised });

// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { runService } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

/** After the sessions have ended. */
const CLOSE_MS = 5_000;
const config = loadConfig(ConfigSchema, { env: process.env, ignoreEnv: ["WHETSTONE_METRICS_PORT"] });
await runService({
  component: "inference-gateway",
  config,
  start: async (logger) => {
    const app = await startApp(config, { logger });
    return { ...app, [Symbol.asyncDispose]: app.leave };
  },
  closeWithinMs: config.drainMs + CLOSE_MS,
  describe: ({ httpUrl, agentsUrl, grpcAddress }) => ({ httpUrl, agentsUrl, grpcAddress }),
});

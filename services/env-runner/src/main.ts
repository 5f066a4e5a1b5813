// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { runService } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

/** After the last session: environments close, the server ends. */
const CLOSING_MS = 5_000;

const config = loadConfig(ConfigSchema, { env: process.env });
await runService({
  component: "env-runner",
  config,
  start: (logger) => startApp(config, { logger }),
  describe: ({ address }) => ({ address }),
  closeWithinMs: config.drainMs + CLOSING_MS,
});

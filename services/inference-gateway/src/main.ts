// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { runService } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { checkChatProgram } from "./chat-check/check-chat.ts";
import { ConfigSchema } from "./config.ts";

/** After the sessions have ended. */
const CLOSE_MS = 5_000;
/** First argument of the process that checks a model folder: the service's own program, so that it sees what this sees. */
const CHECK_CHAT = "check-chat";

if (process.argv[2] === CHECK_CHAT) await checkChatProgram(process.argv.slice(3));
else await serve();

async function serve(): Promise<void> {
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
}

import { loadConfig } from "@whetstone/core";
import { createLogger } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const config = loadConfig(ConfigSchema, { env: process.env });
const logger = createLogger({ component: "controller", level: config.logLevel });
const app = await startApp(config, logger);
logger.info("ready", { port: app.port });

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  setTimeout(() => process.exit(1), 5000).unref();
  await app.close();
  process.exit(0);
}
process.on("SIGTERM", () => void stop());
process.on("SIGINT", () => void stop());
if (config.supervised === "1") process.stdin.on("end", () => void stop()).resume(); // The supervisor is gone.

// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { createLogger, stopOnSignal } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

if (process.argv[2] === "certificates") {
  const { makeCertificates } = await import("./operator/certificates.ts");
  await makeCertificates(process.env, createLogger({ component: "certificates" }));
  process.exit(0);
}
if (process.argv[2] === "delete-jobs") {
  const { deleteJobsBeforeUninstall } = await import("./operator/delete-jobs.ts");
  await deleteJobsBeforeUninstall(process.env, createLogger({ component: "delete-jobs" }));
  process.exit(0);
}
const config = loadConfig(ConfigSchema, { env: process.env });
const logger = createLogger({ component: "controller", level: config.logLevel });
const app = await startApp(config, logger);
logger.info("ready", { port: app.port });
app.ended.catch((error: unknown) => {
  // Another controller leads: nothing of this one may go on, and its successor is this process started again.
  logger.error("stopped_leading", { error });
  process.exit(1);
});
stopOnSignal(() => app.close(), { supervised: config.supervised === "1" });

// SPDX-License-Identifier: Apache-2.0
import { loadConfig } from "@whetstone/core";
import { createLogger, runService } from "@whetstone/telemetry";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

if (process.argv[2] === "certificates") {
  const { makeCertificates } = await import("./operator/certificates/reconciler.ts");
  await makeCertificates(process.env, createLogger({ component: "certificates" }));
  process.exit(0);
}
if (process.argv[2] === "delete-objects") {
  const { deleteBeforeUninstall } = await import("./operator/uninstall/delete-objects.ts");
  await deleteBeforeUninstall(process.env, createLogger({ component: "delete-objects" }));
  process.exit(0);
}
if (process.argv[2] === "nats-guard") {
  const { watchServer } = await import("./nats/nats-guard.ts");
  const [monitor = "", storeDirectory = ""] = process.argv.slice(3);
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort());
  const places = { monitor, storeDirectory, tlsPath: process.env["WHETSTONE_TLS_PATH"] };
  await watchServer(places, createLogger({ component: "nats-guard" }), stop.signal);
  process.exit(0);
}
const config = loadConfig(ConfigSchema, { env: process.env });
await runService({
  component: "controller",
  config,
  start: async (logger) => {
    const app = await startApp(config, logger);
    app.ended.catch((error: unknown) => {
      // Another controller leads: nothing of this one may go on, and its successor is this process started again.
      logger.error("stopped_leading", { error });
      process.exit(1);
    });
    return app;
  },
  describe: ({ port }) => ({ port }),
});

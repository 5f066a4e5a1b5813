// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { silentLogger } from "@whetstone/telemetry";
import { conforms } from "../test-support/conformance.ts";
import { odd } from "../test-support/odd.ts";
import { startPythonRunner } from "../test-support/python-runner.ts";
import { startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

const ODD_PY = join(import.meta.dirname, "../test-support/odd.py");

conforms("the env-runner", (settings) =>
  startApp(ConfigSchema.parse({ grpcPort: 0, ...settings }), { logger: silentLogger, environments: [odd] }),
);

conforms("whetstone_env", ({ slots = 64, drainMs = 0 }) =>
  startPythonRunner(ODD_PY, "--slots", String(slots), "--drain-ms", String(drainMs)),
);

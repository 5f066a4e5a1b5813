// SPDX-License-Identifier: Apache-2.0
/** Tables of stand-in services beside a real nats-server, for tests of the supervisor. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { DataPaths } from "../src/runtime/layout.ts";
import { findNatsServer, natsConfig } from "../src/runtime/nats-server.ts";
import { freePorts } from "../src/runtime/ports.ts";
import type { ServiceSpec } from "../src/runtime/service-spec.ts";

/** A stand-in that needs `needs`; `environment` sets its behaviour, see stand-in-service.mjs. */
export async function standIn(
  name: string,
  needs: string[] = [],
  environment: Record<string, string> = {},
): Promise<ServiceSpec> {
  const [port = 0] = await freePorts(1);
  return {
    name,
    needs,
    command: [process.execPath, join(import.meta.dirname, "stand-in-service.mjs")],
    environment: { PORT: String(port), ...environment },
    ports: { http: port },
    health: { kind: "http", port, paths: ["/healthz"] },
  };
}

export async function natsSpec(paths: DataPaths): Promise<ServiceSpec> {
  const [port = 0, monitor = 0] = await freePorts(2);
  const config = join(paths.root, "nats.conf");
  const prepare = async (): Promise<void> => {
    mkdirSync(paths.nats, { recursive: true });
    writeFileSync(config, natsConfig(port, paths.nats, monitor));
  };
  const command = [findNatsServer().path, "--config", config] as const;
  return {
    name: "nats",
    needs: [],
    command,
    environment: {},
    ports: { nats: port, monitor },
    health: { kind: "nats", port },
    prepare,
  };
}

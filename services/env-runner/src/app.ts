// SPDX-License-Identifier: Apache-2.0
import { startServer } from "@whetstone/rpc";
import { createRegistry, type RegisteredEnvironment } from "@whetstone/sdk";
import { createMetrics, type Logger, serveMetrics } from "@whetstone/telemetry";
import type { EnvRunnerConfig } from "./config.ts";
import { frozenLake } from "./environments/frozenlake.ts";
import { environmentService } from "./handlers/environment-service.ts";
import { runnerMetrics } from "./handlers/metrics.ts";
import { Slots } from "./handlers/slots.ts";

export interface EnvRunnerApp extends AsyncDisposable {
  /** Of EnvironmentService, "host:port". */
  readonly address: string;
  /** Sessions open now. */
  readonly openSessions: number;
  readonly close: () => Promise<void>;
}

export interface AppDeps {
  readonly logger: Logger;
  /** Default: the built-in ones. */
  readonly environments?: readonly RegisteredEnvironment[];
}

export const BUILT_IN: readonly RegisteredEnvironment[] = [frozenLake];

/** Starts an env-runner; it answers as soon as this resolves. */
export async function startApp(config: EnvRunnerConfig, deps: AppDeps): Promise<EnvRunnerApp> {
  const { logger } = deps;
  const slots = new Slots(config.slots);
  const metrics = createMetrics({ component: "env-runner" });
  const registry = createRegistry("environment", deps.environments ?? BUILT_IN);
  const service = environmentService({ registry, slots, config, logger, metrics: runnerMetrics(metrics, slots) });
  const rpc = await startServer({ host: config.host, port: config.grpcPort, services: [service], logger });
  const scrape =
    config.metricsPort === 0 ? undefined : await serveMetrics(metrics, { host: config.host, port: config.metricsPort });
  const close = async (): Promise<void> => {
    await Promise.all([rpc.close(0), scrape?.[Symbol.asyncDispose]()]);
  };
  return {
    address: rpc.address,
    get openSessions() {
      return slots.used;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

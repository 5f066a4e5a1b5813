// SPDX-License-Identifier: Apache-2.0
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import { SandboxService } from "@whetstone/proto/sandboxes/v1/sandboxes";
import { IndexStore } from "@whetstone/search";
import { type Callers, createClient, startServer } from "@whetstone/rpc";
import { createRegistry, frozenLake, type RegisteredEnvironment } from "@whetstone/sdk";
import { createMetrics, type Logger, serveMetrics } from "@whetstone/telemetry";
import { openTls } from "@whetstone/tls";
import { ArtifactCache } from "./artifacts/artifact-cache.ts";
import type { EnvRunnerConfig } from "./config.ts";
import { Browsers } from "./browsers/browsers.ts";
import { browserEnvironment } from "./environments/browser.ts";
import { codeEnvironment } from "./environments/code.ts";
import { harborEnvironment } from "./environments/harbor.ts";
import { mathEnvironment, mathReviseEnvironment } from "./environments/math.ts";
import { mcpEnvironment } from "./environments/mcp.ts";
import { nemoGym } from "./environments/nemo-gym.ts";
import { openEnv } from "./environments/openenv.ts";
import { r2eGymEnvironment, sweBenchEnvironment } from "./environments/repository.ts";
import { searchEnvironment } from "./environments/search.ts";
import type { Judge } from "./environments/graded.ts";
import { MathVerify } from "./math-verify/math-verify.ts";
import { Sandboxes } from "./sandboxes/sandboxes.ts";
import { sweEnvironment } from "./environments/swe.ts";
import { toolEnvironment } from "./environments/tool.ts";
import { Drain } from "./sessions/drain.ts";
import { environmentService } from "./sessions/environment-service.ts";
import { runnerMetrics } from "./sessions/metrics.ts";
import { ModuleEnvironments } from "./host/module-environments.ts";
import { Slots } from "./sessions/slots.ts";

export interface EnvRunnerApp extends AsyncDisposable {
  /** Of EnvironmentService, "host:port". */
  readonly address: string;
  /** Sessions open now. */
  readonly openSessions: number;
  /** Processes of jobs' own code. */
  readonly modulePids: readonly number[];
  /** Sessions may go on for `drainMs`, then they are handed back. */
  readonly close: () => Promise<void>;
}

export interface AppDeps {
  readonly logger: Logger;
  /** Default: the built-in ones. */
  readonly environments?: readonly RegisteredEnvironment[];
}

/** What the built-in environments share. */
export interface BuiltInDeps {
  readonly sandboxes: Sandboxes;
  readonly browsers: Browsers;
  readonly judge: Judge;
  readonly indexes: IndexStore;
  readonly serversPath?: string | undefined;
}

export function builtIn({
  sandboxes,
  browsers,
  judge,
  indexes,
  serversPath,
}: BuiltInDeps): readonly RegisteredEnvironment[] {
  const withTools = [toolEnvironment(sandboxes, judge), mcpEnvironment({ sandboxes, judge, serversPath })];
  const graded = [mathEnvironment(judge), mathReviseEnvironment(judge), ...withTools, searchEnvironment(indexes)];
  const inSandboxes = [codeEnvironment, sweEnvironment, sweBenchEnvironment, r2eGymEnvironment, harborEnvironment];
  return [
    frozenLake,
    ...graded,
    ...inSandboxes.map((environment) => environment(sandboxes)),
    browserEnvironment(browsers),
    openEnv,
    nemoGym,
  ];
}

const CALLERS: Callers = { controller: true, orchestrator: ["describe", "session"] };

/** How long sessions may take to end once they were handed back. */
const HAND_BACK_MS = 2_000;

/** Starts an env-runner; it answers as soon as this resolves. */
export async function startApp(config: EnvRunnerConfig, deps: AppDeps): Promise<EnvRunnerApp> {
  const { logger } = deps;
  const slots = new Slots(config.slots);
  const registered = createMetrics({ component: "env-runner" });
  const metrics = runnerMetrics(registered, slots);
  const drain = new Drain((draining) => {
    rpc.setServing(EnvironmentService.typeName, !draining); // Readiness; the process as a whole is well.
    logger.info("draining", { draining, sessions: slots.used });
  });
  const tls = openTls(config.tlsPath, { logger });
  const controller = { tls: tls?.to("controller") };
  const { artifactAddress: address } = config;
  const source = address === undefined ? undefined : createClient(ArtifactService, address, controller);
  const pods = address === undefined ? undefined : createClient(SandboxService, address, controller);
  const sandboxes = new Sandboxes({ source: pods, daemonPath: config.sandboxDaemonPath });
  const mathVerify = new MathVerify({
    folder: config.mathVerifyPath,
    backend: () => sandboxes.backend({ sandbox: { backend: "process", network: [] } }),
  });
  const browsers = new Browsers(sandboxes, config);
  const modules = new ModuleEnvironments(config, { browsers, logger, onEnd: ({ code }) => metrics.moduleEnd(code) });
  const indexes = new IndexStore({
    folder: config.searchIndexPath,
    onDamage: (message) => logger.warn("a damaged index is built again", { message }),
  });
  const registry = createRegistry(
    "environment",
    deps.environments ??
      builtIn({ sandboxes, browsers, judge: mathVerify, indexes, serversPath: config.mcpServersPath }),
  );
  const artifacts = new ArtifactCache({
    folder: config.artifactCachePath,
    maxBytes: config.artifactCacheBytes,
    source,
  });
  const service = environmentService({ registry, modules, artifacts, slots, drain, config, logger, metrics });
  const rpc = await startServer({
    host: config.host,
    port: config.grpcPort,
    services: [service],
    logger,
    tls,
    callers: CALLERS,
    healthPort: config.healthPort,
  });
  const scrape =
    config.metricsPort === 0
      ? undefined
      : await serveMetrics(registered, { host: config.host, port: config.metricsPort });
  const close = async (): Promise<void> => {
    drain.end(config.drainMs);
    await slots.idle(config.drainMs + HAND_BACK_MS);
    await Promise.all([rpc.close(0), scrape?.[Symbol.asyncDispose](), modules[Symbol.asyncDispose]()]);
    await Promise.all([
      mathVerify[Symbol.asyncDispose](),
      browsers[Symbol.asyncDispose](),
      indexes[Symbol.asyncDispose](),
    ]);
    await sandboxes[Symbol.asyncDispose]();
    await Promise.all([source?.[Symbol.asyncDispose](), pods?.[Symbol.asyncDispose]()]);
    tls?.[Symbol.dispose]();
  };
  return {
    address: rpc.address,
    get openSessions() {
      return slots.used;
    },
    get modulePids() {
      return modules.pids;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError, withTimeout } from "@whetstone/core";
import {
  awaitPlatform,
  connectNats,
  DEFAULT_POOL,
  ensurePlatform,
  openBundleStore,
  openStreams,
} from "@whetstone/messaging";
import { storeLocation } from "@whetstone/objects";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import type { Episode } from "@whetstone/proto/types/v1/types";
import { type Callers, createClient, startServer } from "@whetstone/rpc";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import { createMetrics, type Logger, serveMetrics } from "@whetstone/telemetry";
import { openTls } from "@whetstone/tls";
import type { PlacedDelivery } from "./play/episode-player.ts";
import { playTask } from "./play/play-task.ts";
import { ExternalModels } from "./play/external-models.ts";
import { fixedPools } from "./environments/fixed-pools.ts";
import { JobPullers } from "./tasks/job-pullers.ts";
import { GatewayReplicas } from "./play/gateway-replicas.ts";
import { type OnActivity, watchJobs } from "./tasks/job-watch.ts";
import { poolOf, type Pools } from "./environments/pools.ts";
import { RunnerClients } from "./environments/runner-clients.ts";
import { SlotControl } from "./slots/slot-control.ts";
import { WatchedPools } from "./environments/watched-pools.ts";
import { builtInActors } from "./agents/built-in.ts";
import { CommandSandboxes } from "./agents/command-sandboxes.ts";
import type { OrchestratorConfig } from "./config.ts";
import type { LimitReason } from "./slots/adaptive-limit.ts";
import { FairGate } from "./slots/fair-gate.ts";
import { needsModule } from "./tasks/needs-module.ts";
import { orchestratorMetrics } from "./service/metrics.ts";
import type { Play } from "./replay/replay.ts";
import { rolloutService } from "./service/rollout-service.ts";
import { ModulePlayer } from "./host/module-player.ts";

export interface OrchestratorApp extends AsyncDisposable {
  /** Of RolloutService, "host:port". */
  readonly address: string;
  /** Episodes that play now. */
  readonly inFlight: number;
  /** How many may play, and what keeps it below maxEpisodes. */
  readonly slots: { readonly open: number; readonly reason: LimitReason };
  /** Jobs whose tasks are taken. */
  readonly jobs: readonly string[];
  /** Processes of jobs' own code. */
  readonly modulePids: readonly number[];
  /** Stops pulling, aborts what plays, hands the tasks back. */
  readonly close: () => Promise<void>;
}

export interface AppDeps {
  readonly logger: Logger;
  /** Default: the built-in ones. */
  readonly actors?: readonly RegisteredActor[];
}

const FLUSH_MS = 500;
const CALLERS: Callers = { controller: true };

/** Starts an orchestrator; it takes tasks as soon as this resolves. */
export async function startApp(config: OrchestratorConfig, deps: AppDeps): Promise<OrchestratorApp> {
  const { logger } = deps;
  await using opened = new AsyncDisposableStack();
  const tls = opened.use(openTls(config.tlsPath, { logger }));
  const { natsUrl: servers, natsCredentials: credentialsPath, natsCa: caPath } = config;
  const name = "rollout-orchestrator";
  const nats = opened.use(await connectNats({ servers, name, logger, tls, credentialsPath, caPath }));
  await (config.makeStreams ? ensurePlatform(nats) : awaitPlatform(nats));
  const store = storeLocation(config, process.env);
  const streams = await openStreams(nats, { logger, store, storeEpisodes: config.storeEpisodes });
  const callbacks = { host: config.callbackHost ?? config.host, publicUrl: config.callbackUrl };
  const gateways = opened.use(
    await GatewayReplicas.open({ urls: config, connections: config.maxEpisodes, tls, logger }),
  );
  const { programFolders, moduleMemoryMib: memoryMiB } = config;
  const connectGateway = (origin: string) => gateways.connectProgram(origin);
  const commands = opened.use(new CommandSandboxes({ connectGateway, programFolders, memoryMiB }));
  const actors = createRegistry<RegisteredActor>("agent", deps.actors ?? builtInActors(callbacks, commands.run));
  const runners = opened.use(new RunnerClients({ tls: tls?.to("env-runner") }));
  const gate = new FairGate(config.maxEpisodes, { now: () => performance.now() });
  const registry = createMetrics({ component: "rollout-orchestrator" });
  const metrics = orchestratorMetrics(registry, gate);
  const player = { actors, environments: runners, gateway: gateways, externals: opened.use(new ExternalModels()) };
  const bundles = openBundleStore(nats);
  const modules = opened.use(
    new ModulePlayer(config, {
      bundles,
      runners,
      logger,
      gateways,
      onEnd: ({ code }) => metrics.moduleEnd(code),
    }),
  );
  const pools = config.watchPools
    ? opened.use(new WatchedPools(nats, logger))
    : fixedPools(new Map([[DEFAULT_POOL, config.envAddress], ...config.envPools]), {
        gate,
        connect: (address) => opened.use(createClient(EnvironmentService, address, { tls: tls?.to("env-runner") })),
      });
  const play = placed(pools, (delivery, signal) =>
    needsModule(delivery.task) ? modules.play(delivery, signal) : playTask(player, delivery, signal),
  );
  const pullers = new JobPullers({
    streams,
    config,
    gate,
    pools,
    metrics,
    logger,
    flush: () => withTimeout(() => nats.flush(), { timeoutMs: FLUSH_MS }).catch(() => undefined),
    play,
  });
  opened.defer(() => pullers.close());
  const services = [rolloutService({ actors, modules, play })];
  const { host, grpcPort: port, healthPort } = config;
  const rpc = opened.use(await startServer({ host, port, services, logger, tls, callers: CALLERS, healthPort }));
  if (config.metricsPort !== 0) {
    opened.use(await serveMetrics(registry, { host: config.host, port: config.metricsPort }));
  }
  const watching = new AbortController();
  opened.defer(() => {
    watching.abort();
  });
  const onActivity: OnActivity = (job, activity, spec) => {
    pullers.onActivity(job, activity, spec);
    if (activity !== "play") modules.jobLeft(job);
  };
  void watchJobs(nats, onActivity, { signal: watching.signal, logger }).catch((error: unknown) => {
    logger.error("job_watch_failed", { error });
  });
  const { environmentSlots } = pullers;
  const control = new SlotControl({ config, gateways, gate, environmentSlots, onLimit: metrics.limit, logger });
  opened.use(control);
  const all = opened.move();
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= all.disposeAsync());
  return {
    address: rpc.address,
    get inFlight() {
      return gate.active;
    },
    get slots() {
      return { open: gate.limit, reason: control.reason };
    },
    get jobs() {
      return pullers.jobs;
    },
    get modulePids() {
      return modules.pids;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Finds a place for each play. */
function placed(pools: Pools, play: (delivery: PlacedDelivery, signal: AbortSignal) => Promise<Episode>): Play {
  return async (delivery, signal) => {
    const { kind, pool } = delivery.task.environment ?? {};
    using lease = pools.of(poolOf({ pool })).lease();
    // Workflows may open environments that their task does not name.
    if (lease === undefined && kind)
      throw new WhetstoneError("HANDED_BACK", "no env-runner takes it now", { retry: "safe" });
    return await play({ ...delivery, runners: lease ?? { addresses: [], elastic: true } }, signal);
  };
}

// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import {
  type BundleStore,
  connectNats,
  DEFAULT_POOL,
  type Nats,
  openBundleStore,
  openStreams,
  type TypedStreams,
} from "@whetstone/messaging";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { Kube } from "@whetstone/kube";
import { storeLocation } from "@whetstone/objects";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { createMetrics, type Logger } from "@whetstone/telemetry";
import { connectorTo, type TlsIdentity } from "@whetstone/tls";
import { fixedHost, type FindHost, noHost, pooledHost } from "./pools/environment-hosts.ts";
import { fencedFleet } from "./fleet/fenced-fleet.ts";
import { everyGateway, type Gateways } from "./fleet/gateways/every-gateway.ts";
import { GatewayReplicas } from "./fleet/gateways/gateway-replicas.ts";
import { EngineControl } from "./fleet/engine-control.ts";
import { EngineFleet } from "./fleet/engine-fleet.ts";
import { InstallationNotices } from "./operator/installation-notices.ts";
import { JobRecords } from "./jobs/service/job-records.ts";
import { ServingStore } from "./serving/serving-store.ts";
import { JobStore } from "./jobs/job-store.ts";
import { StoredRuns } from "./jobs/stored-runs.ts";
import type { EngineDeps, EngineTraits } from "./jobs/validation/engine-traits.ts";
import { Artifacts } from "./artifacts/artifacts.ts";
import { jobsByDigest } from "./artifacts/job-artifacts.ts";
import { readLedger } from "./loop/batch/kv-ledger.ts";
import { Lead } from "./leading/lead.ts";
import { NatsWatch } from "./nats/nats-watch.ts";
import { StoreWatch } from "./nats/store-watch.ts";
import { TrainerPool } from "./loop/trainer/trainer-pool.ts";
import type { Config } from "./config.ts";
import { openCluster } from "./leading/run-as-leader.ts";

export interface ControllerBase {
  readonly config: Config;
  readonly nats: Nats;
  readonly logger: Logger;
  readonly tls: TlsIdentity | undefined;
}

export interface World extends ControllerBase {
  readonly streams: TypedStreams;
  readonly store: JobStore;
  readonly records: JobRecords;
  readonly storedRuns: StoredRuns;
  readonly lead: Lead;
  /** Absent: not on Kubernetes. */
  readonly kube: Kube | undefined;
  readonly fleet: EngineFleet;
  readonly fleetClient: Gateways;
  readonly trainers: TrainerPool;
  /** Of the first trainer: all of them are set up alike. */
  readonly trainerClient: RpcClient<typeof TrainerService>;
  readonly findHost: FindHost;
  readonly rollouts: ReturnType<typeof createClient<typeof RolloutService>>;
  readonly bundles: BundleStore;
  readonly artifacts: Artifacts;
  readonly servings: ServingStore;
  readonly natsWatch: NatsWatch;
  readonly metrics: ReturnType<typeof createMetrics>;
  readonly notices: InstallationNotices;
  /** What a submission asks engines. */
  readonly engines: EngineDeps;
}

export function openNats(config: Config, tls: TlsIdentity | undefined, logger: Logger): Promise<Nats> {
  const { natsUrl: servers, natsCredentials: credentialsPath, natsCa: caPath } = config;
  return connectNats({ servers, name: "controller", logger, tls, credentialsPath, caPath });
}

export async function openWorld(parts: ControllerBase, stack: AsyncDisposableStack): Promise<World> {
  const { config, nats, logger, tls } = parts;
  const streams = await openStreams(nats, { logger, store: storeLocation(config, process.env) });
  const lead = new Lead();
  const gateways = new GatewayReplicas({
    addresses: config.fleetAddress,
    connect: (address) => fencedFleet(createClient(FleetService, address, { tls: tls?.to("gateway") }), lead),
  });
  const fleetClient = stack.use(everyGateway(gateways, logger));
  const trainers = stack.use(
    new TrainerPool(
      config.trainerAddress.map((address) => createClient(TrainerService, address, { tls: tls?.to("trainer") })),
    ),
  );
  const [trainerClient] = trainers.clients as [RpcClient<typeof TrainerService>];
  const rollouts = stack.use(
    createClient(RolloutService, config.orchestratorAddress, { tls: tls?.to("orchestrator") }),
  );
  const runPathOf = (uid: string): string => join(config.dataPath, "runs", uid);
  const metrics = createMetrics({ component: "controller" });
  const quarantines = metrics.counter("engine_quarantines_total", "Engines found quarantined, by reason");
  const stageSeconds = metrics.histogram("engine_stage_seconds", "Time in which an engine read weights and sampled on");
  const fencedSeconds = metrics.histogram(
    "engine_fenced_seconds",
    "Time in which an engine sampled nothing for a switch",
  );
  const notices = new InstallationNotices();
  stack.use(new StoreWatch(nats, (troubles) => notices.set("episodes", troubles)));
  const kube = await openCluster(config, logger, metrics);
  const store = await JobStore.open(nats);
  const ledger = await readLedger(nats);
  if (kube) stack.use(kube);
  const connect = tls && connectorTo(tls.to("engine"));
  const engineTraits = async (url: string, signal: AbortSignal): Promise<EngineTraits> => {
    await using control = new EngineControl(url, connect);
    const { object_store: objectStore = "", names_support: namesSupport } = await control.ownInfo(signal);
    return { objectStore, namesSupport };
  };
  return {
    ...parts,
    lead,
    kube,
    fleetClient,
    trainerClient,
    streams,
    metrics,
    findHost: findHostBy(parts, kube),
    store,
    records: new JobRecords(streams, ledger, runPathOf),
    storedRuns: new StoredRuns({ trainers: trainers.clients, policies: ledger.policies }),
    fleet: new EngineFleet({
      client: fleetClient,
      logger,
      lead,
      connect,
      onQuarantine: (engine, reason) => {
        quarantines.inc();
        logger.warn("engine_quarantined", { engine, reason });
      },
      onSwitched: ({ stage, fenced }) => {
        if (stage !== undefined) stageSeconds.observe(stage);
        fencedSeconds.observe(fenced);
      },
      onBehind: (words) => notices.set("engines", words ? [{ reason: "EnginesBehind", message: behind(words) }] : []),
      onWithout: (jobs) =>
        notices.set("shares", jobs.length > 0 ? [{ reason: "TooFewEngines", message: without(jobs) }] : []),
    }),
    trainers,
    rollouts,
    bundles: openBundleStore(nats),
    artifacts: new Artifacts(config.dataPath, async () =>
      jobsByDigest((await store.records()).map(({ value }) => value)),
    ),
    servings: await ServingStore.open(nats),
    natsWatch: stack.use(new NatsWatch({ nats, monitors: config.natsMonitors, logger })),
    notices,
    engines: { fleetClient, engineTraits },
  };
}

function behind(words: string): string {
  return `Engines do not take the newest weights and are asked again; others go on. ${words}`;
}

function without(jobs: readonly string[]): string {
  return `There are fewer engines than jobs that run: ${jobs.join(", ")} waits for one.`;
}

function findHostBy({ config, nats, logger, tls }: ControllerBase, kube: Kube | undefined): FindHost {
  if (config.envAddress !== undefined)
    return fixedHost(new Map([[DEFAULT_POOL, config.envAddress], ...config.envPools]), tls);
  return kube ? pooledHost({ nats, kube, tls, logger }) : noHost();
}

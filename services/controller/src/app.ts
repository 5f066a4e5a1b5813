// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { auditJob } from "@whetstone/audit";
import { DEFAULT_POOL, ensureJobStreams, ensurePlatform, requireServerVersion } from "@whetstone/messaging";
import { type Callers, type RpcServer, type ServiceImplementation, startServer } from "@whetstone/rpc";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { type Logger, serveMetrics } from "@whetstone/telemetry";
import { connectorTo, openTls } from "@whetstone/tls";
import { clusterFleets, type FleetDirectory, localFleet } from "./fleet/fleet-directory.ts";
import { artifactService } from "./artifacts/artifact-service.ts";
import { pinArtifacts } from "./artifacts/job-artifacts.ts";
import { deleteJob } from "./jobs/deletion/delete-job.ts";
import { finishDeletions } from "./jobs/deletion/finish-deletions.ts";
import { checkWorld } from "./jobs/validation/external-checks.ts";
import { AdapterKeeper } from "./fleet/adapter-keeper.ts";
import { FeedbackFiles } from "./serving/feedback-files.ts";
import { KeptWeights } from "./serving/kept-weights.ts";
import { enginesFor, ServingKeeper } from "./serving/serving-keeper.ts";
import { servingService } from "./serving/serving-service.ts";
import { clusterPools, fixedPools, type PoolDirectory } from "./pools/pool-directory.ts";
import { TrainingJobs } from "./operator/training-job/objects.ts";
import type { Config } from "./config.ts";
import { fleetView } from "./fleet/fleet-view.ts";
import { jobService } from "./jobs/service/job-service.ts";
import { poolService } from "./pools/pool-service.ts";
import { sandboxService } from "./sandboxes/sandbox-service.ts";
import type { Capacity } from "./loop/next-job.ts";
import { Scheduler } from "./loop/scheduler.ts";
import { type LeaderWork, runAsLeader } from "./leading/run-as-leader.ts";
import { startOperator } from "./operator/operator.ts";
import { playJob, setPhase } from "./loop/play-job.ts";
import { openNats, openWorld, type World } from "./world.ts";

/** Oldest nats-server whose streams keep our promises: stricter API checks and repairs of consumers after restarts. */
const NATS_NEEDED = "2.12.0";

/** Jobs wait for their turn meanwhile. */
const LIST_MS = 3_000;

const SANDBOX_CALLS = ["getSandboxPool", "claimSandbox", "releaseSandbox", "getSandbox"];

/** Of whoever shares no volume with the controller. */
const ARTIFACT_CALLS = ["getArtifact", "readFile"];
/** Env-runners fetch what their sessions name, by digest, and claim sandboxes. */
const CALLERS: Callers = {
  client: true,
  console: true,
  "env-runner": [...ARTIFACT_CALLS, ...SANDBOX_CALLS],
  trainer: ARTIFACT_CALLS,
  engine: ARTIFACT_CALLS,
  gateway: ARTIFACT_CALLS,
};

export interface App extends AsyncDisposable {
  readonly port: number;
  /** Rejects when this controller may act no longer: the process has to end. */
  readonly ended: Promise<void>;
}

/** Starts the controller: JobService, and while this replica leads the scheduler that runs jobs. */
export async function startApp(config: Config, logger: Logger): Promise<App> {
  const stack = new AsyncDisposableStack();
  const shutdown = new AbortController();
  const tls = stack.use(openTls(config.tlsPath, { logger }));
  const nats = stack.use(await openNats(config, tls, logger));
  requireServerVersion(nats, NATS_NEEDED);
  await ensurePlatform(nats, { replicas: config.streamReplicas });
  const world = await openWorld({ config, nats, logger, tls }, stack);
  const { mirror } = world.store;
  const scheduler = new Scheduler({
    logger,
    jobs: () => mirror.all(),
    capacity: () => capacityOf(world),
    prepare: (job) =>
      ensureJobStreams(nats, job.spec?.name ?? "", {
        maxTasks: config.maxTasks,
        maxEpisodeBytes: config.maxEpisodeBytes,
        replicas: config.streamReplicas,
      }),
    setPhase: (name, phase, reason, message) => setPhase(world, name, { phase, reason, message }),
    run: (job, signals) => playJob(world, job, signals),
  });
  stack.defer(mirror.onChange((_, job) => job && scheduler.note(job)));
  const atWork = new Set<string>();
  const feedback = new FeedbackFiles(config.dataPath);
  const keeper = new ServingKeeper({
    feedback,
    adapters: new AdapterKeeper({
      ...{ gateways: world.fleetClient, logger, lead: world.lead },
      connect: tls && connectorTo(tls.to("engine")),
    }),
    fleet: world.fleet,
    gateways: world.fleetClient,
    servings: () => world.servings.all(),
    logger,
  });
  const more = [servingsOf(world, keeper, feedback), ...(await sandboxServices(world, stack))];
  const server = await serveJobs(config, world, atWork, more);
  const ended = runAsLeader(world, leaderWork(world, { scheduler, keeper, atWork }), shutdown.signal);
  ended.catch(() => undefined); // Callers that do not watch it still close.
  if (config.metricsPort) stack.use(await serveMetrics(world.metrics, { host: config.host, port: config.metricsPort }));
  return {
    port: server.port,
    ended,
    async [Symbol.asyncDispose]() {
      await server.close(1000);
      shutdown.abort();
      await ended.catch(() => undefined);
      await stack.disposeAsync();
    },
  };
}

interface Work {
  readonly scheduler: Scheduler;
  readonly keeper: ServingKeeper;
  /** Jobs that are being deleted. */
  readonly atWork: Set<string>;
}

/** What the leader does. */
function leaderWork(world: World, { scheduler, keeper, atWork }: Work): LeaderWork {
  return async (signal, kube) => {
    const end = new AbortController();
    const all = AbortSignal.any([signal, end.signal]);
    const { mirror } = world.store;
    const kept = keeper.run(all);
    // Policies that were served stay where they are: jobs share what is left.
    const scheduled = keeper.hasLooked.then(() => scheduler.run(all));
    const work = [mirror.follow(all), kept, scheduled];
    if (kube)
      work.push(
        startOperator(
          {
            ...world,
            kube,
            jobs: mirror,
            checkWorld: (...job) => checkWorld(...job, { ...world, environmentsLast: true }),
          },
          all,
        ),
      );
    else work.push(finishDeletions({ ...world, dataPath: world.config.dataPath, jobs: mirror, atWork }, all));
    try {
      await Promise.all(work);
    } finally {
      end.abort();
      await Promise.allSettled(work);
    }
  };
}

function servingsOf(world: World, keeper: ServingKeeper, feedback: FeedbackFiles): ServiceImplementation {
  const { config, store, records, artifacts } = world;
  const weights = new KeptWeights({
    dataPath: config.dataPath,
    getJob: (name) => store.get(name),
    checkpoints: (job) => records.checkpoints(job),
    artifactFolder: async (name, digest) =>
      artifacts.layout.files(digest ?? (await artifacts.get("models", name)).digest),
  });
  return servingService({
    store: world.servings,
    weights,
    feedback,
    keeper,
    gateways: world.fleetClient,
    refusal: refusalOf(config),
    url: config.agentsUrl,
  });
}

function refusalOf({ sharedData, onDemand }: Config): string | undefined {
  if (!sharedData) return "controller and engines share no volume here: engines could not read what is to be served";
  return onDemand ? "engines are here only while a job needs them (onDemand): nothing can stay served" : undefined;
}

/** Where there are sandbox pools. */
async function sandboxServices(world: World, stack: AsyncDisposableStack): Promise<ServiceImplementation[]> {
  const { kube, logger, metrics, config } = world;
  if (!kube || config.sandboxImage === undefined) return [];
  const { SandboxClaims } = await import("./sandboxes/sandbox-claims.ts");
  const claims = new SandboxClaims({ kube, daemonImage: config.sandboxImage, logger, metrics });
  stack.use(claims);
  return [sandboxService(claims)];
}

function serveJobs(
  config: Config,
  world: World,
  atWork: Set<string>,
  sandboxes: readonly ServiceImplementation[],
): Promise<RpcServer> {
  const objects = world.kube && new TrainingJobs(world.kube);
  const deletion = {
    ...world,
    dataPath: config.dataPath,
    deleteObject: objects && ((name: string, uid: string) => objects.delete(name, uid)),
    atWork,
  };
  const service = jobService({
    store: world.store,
    records: world.records,
    storedRuns: world.storedRuns,
    bundles: world.bundles,
    rollouts: world.rollouts,
    natsWatch: world.natsWatch,
    audit: (job, signal) =>
      auditJob(job, {
        connection: world.nats,
        streams: world.streams,
        runsFolder: join(config.dataPath, "runs"),
        storedState: (record) => world.storedRuns.newestState(record, signal),
        signal,
      }),
    pin: (spec) => pinArtifacts(spec, world.artifacts),
    checkWorld: (spec, module) => checkWorld(spec, module, world),
    objects,
    deleteJob: (request, signal) => deleteJob(deletion, request, signal),
    onDemand: config.onDemand,
  });
  return startServer({
    host: config.host,
    port: config.grpcPort,
    services: [
      service,
      artifactService(world.artifacts),
      poolService(poolsOf(world), world.findHost),
      fleetView(fleetsOf(world), world.fleet),
      ...sandboxes,
    ],
    logger: world.logger,
    metrics: world.metrics,
    tls: world.tls,
    callers: CALLERS,
    healthPort: config.healthPort,
  });
}

function fleetsOf({ kube, fleet, fleetClient }: World): FleetDirectory {
  return kube ? clusterFleets(kube, fleetClient) : localFleet(fleetClient, fleet);
}

/** Engines that the gateway knows and trusts. One that is away has none, and the first job waits for it. */
async function capacityOf({ fleetClient, trainers, servings }: World): Promise<Capacity> {
  const listed = fleetClient.listEngines({}, { deadlineMs: LIST_MS });
  const { engines } = await listed.catch(() => ({ engines: [] }));
  return {
    held: enginesFor(await servings.all()),
    engines: engines.filter(({ state }) => state !== EngineState.QUARANTINED).length,
    trainers: trainers.size,
  };
}

function poolsOf({ kube, config, findHost }: World): PoolDirectory {
  if (kube && config.envAddress === undefined) return clusterPools(kube);
  return fixedPools([DEFAULT_POOL, ...config.envPools.keys()], findHost);
}

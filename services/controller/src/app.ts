// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { hostname } from "node:os";
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { auditJob } from "@whetstone/audit";
import { WhetstoneError } from "@whetstone/core";
import {
  type BundleStore,
  connectNats,
  ensureJobStreams,
  ensurePlatform,
  eventSubject,
  type KvRecord,
  type Nats,
  openBundleStore,
  openStreams,
  requireServerVersion,
  type TypedStreams,
} from "@whetstone/messaging";
import { type JobEvent, JobEventSchema, PhaseChangedSchema } from "@whetstone/proto/events/v1/events";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { type Job, JobPhase, type JobStatus } from "@whetstone/proto/jobs/v1/jobs";
import { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { Kube } from "@whetstone/kube";
import { type Callers, createClient, type RpcClient, type RpcServer, startServer } from "@whetstone/rpc";
import { createMetrics, type Logger, serveMetrics } from "@whetstone/telemetry";
import { connectorTo, openTls, type TlsIdentity } from "@whetstone/tls";
import { loadDataset } from "./adapters/dataset-file.ts";
import { fixedHost, type FindHost, noHost, pooledHost } from "./adapters/environment-hosts.ts";
import { fencedFleet, type FleetClient } from "./adapters/fenced-fleet.ts";
import { EngineFleet } from "./adapters/fleet.ts";
import { clusterFleets, type FleetDirectory, localFleet } from "./adapters/fleet-directory.ts";
import { JobRecords } from "./adapters/job-records.ts";
import { JobMirror } from "./adapters/job-mirror.ts";
import { JobStore } from "./adapters/job-store.ts";
import { checkWorld } from "./adapters/job-world.ts";
import { KvLedger, readLedger } from "./adapters/kv-ledger.ts";
import { Lead } from "./adapters/lead.ts";
import { NatsTaskQueue } from "./adapters/nats-task-queue.ts";
import { clusterPools, fixedPools, type PoolDirectory } from "./adapters/pool-directory.ts";
import { StreamEpisodeIndex } from "./adapters/stream-episode-index.ts";
import { TrainerClient } from "./adapters/trainer-client.ts";
import { TrainingJobs } from "./adapters/training-jobs.ts";
import type { Config } from "./config.ts";
import { listTasks, type TaskList } from "./domain/dataset.ts";
import { isFinished } from "./domain/job-phase.ts";
import { fleetView } from "./handlers/fleet-view.ts";
import { jobService } from "./handlers/job-service.ts";
import { poolService } from "./handlers/pool-service.ts";
import { type Ending, type JobParts, runJob } from "./loop/job-runner.ts";
import { Scheduler } from "./loop/scheduler.ts";
import { type BoardSinks, StatusBoard } from "./loop/status-board.ts";
import { type Duty, holdOffice, openCluster } from "./operator/office.ts";
import { startOperator } from "./operator/operator.ts";

/** Oldest nats-server whose streams keep our promises: stricter API checks and repairs of consumers after restarts. */
const NATS_NEEDED = "2.12.0";

const CALLERS: Callers = { client: true, console: true };

export interface App {
  readonly port: number;
  /** Rejects when this controller may act no longer: the process has to end. */
  readonly ended: Promise<void>;
  close(): Promise<void>;
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
  const mirror = new JobMirror(world.store);
  const scheduler = new Scheduler({
    logger,
    jobs: () => mirror.all(),
    prepare: (job) =>
      ensureJobStreams(nats, job.spec?.name ?? "", {
        maxTasks: config.maxTasks,
        maxEpisodeBytes: config.maxEpisodeBytes,
        replicas: config.streamReplicas,
      }),
    setPhase: async (name, phase, reason, message) => {
      const record = await setPhase(world, name, { phase, reason, message });
      mirror.take(record);
      return record.value;
    },
    run: (job, signals) => playJob(world, job, signals),
  });
  const server = await serveJobs(config, world, scheduler);
  const ended = holdOffice(world, duties(world, mirror, scheduler), shutdown.signal);
  ended.catch(() => undefined); // Callers that do not watch it still close.
  if (config.metricsPort) stack.use(await serveMetrics(world.metrics, { host: config.host, port: config.metricsPort }));
  return {
    port: server.port,
    ended,
    async close() {
      await server.close(1000);
      shutdown.abort();
      await ended.catch(() => undefined);
      await stack.disposeAsync();
    },
  };
}

type EventKind = Extract<JobEvent["kind"], { case: "step" | "validation" | "phaseChanged" }>;

interface Ground {
  readonly config: Config;
  readonly nats: Nats;
  readonly logger: Logger;
  readonly tls: TlsIdentity | undefined;
}

interface World extends Ground {
  readonly streams: TypedStreams;
  readonly store: JobStore;
  readonly records: JobRecords;
  readonly lead: Lead;
  /** Absent: not on Kubernetes. */
  readonly kube: Kube | undefined;
  readonly fleet: EngineFleet;
  readonly fleetClient: FleetClient;
  readonly trainer: TrainerClient;
  readonly trainerClient: RpcClient<typeof TrainerService>;
  readonly findHost: FindHost;
  readonly rollouts: ReturnType<typeof createClient<typeof RolloutService>>;
  readonly bundles: BundleStore;
  readonly metrics: ReturnType<typeof createMetrics>;
}

function openNats(config: Config, tls: TlsIdentity | undefined, logger: Logger): Promise<Nats> {
  const { natsUrl: servers, natsCredentials: credentialsPath, natsCa: caPath } = config;
  return connectNats({ servers, name: "controller", logger, tls, credentialsPath, caPath });
}

async function openWorld(parts: Ground, stack: AsyncDisposableStack): Promise<World> {
  const { config, nats, logger, tls } = parts;
  const streams = await openStreams(nats, { logger });
  const lead = new Lead();
  const gateway = stack.use(createClient(FleetService, config.fleetAddress, { tls: tls?.to("gateway") }));
  const fleetClient = fencedFleet(gateway, lead);
  const trainerClient = stack.use(createClient(TrainerService, config.trainerAddress, { tls: tls?.to("trainer") }));
  const rollouts = stack.use(
    createClient(RolloutService, config.orchestratorAddress, { tls: tls?.to("orchestrator") }),
  );
  const runPathOf = (uid: string): string => join(config.dataPath, "runs", uid);
  const metrics = createMetrics({ component: "controller" });
  const quarantines = metrics.counter({
    name: "engine_quarantines_total",
    help: "Engines found quarantined, by reason",
  });
  const kube = await openCluster(config, logger, metrics);
  if (kube) stack.use(kube);
  return {
    ...parts,
    lead,
    kube,
    fleetClient,
    trainerClient,
    streams,
    metrics,
    findHost: findHostBy(parts, kube),
    store: await JobStore.open(nats),
    records: new JobRecords(streams, await readLedger(nats), runPathOf),
    fleet: new EngineFleet({
      client: fleetClient,
      logger,
      lead,
      connect: tls && connectorTo(tls.to("engine")),
      onQuarantine: (engine, reason) => {
        quarantines.inc();
        logger.warn("engine_quarantined", { engine, reason });
      },
    }),
    trainer: new TrainerClient({ client: trainerClient, runPathOf, logger, lead }),
    rollouts,
    bundles: openBundleStore(nats),
  };
}

function findHostBy({ config, nats, logger, tls }: Ground, kube: Kube | undefined): FindHost {
  if (config.envAddress !== undefined) return fixedHost(config.envAddress, tls);
  return kube ? pooledHost({ nats, kube, tls, logger }) : noHost();
}

/** What the leader does. */
function duties(world: World, mirror: JobMirror, scheduler: Scheduler): Duty {
  return async (signal, kube) => {
    const end = new AbortController();
    const all = AbortSignal.any([signal, end.signal]);
    const work = [mirror.follow(all, (job) => scheduler.note(job)), scheduler.run(all)];
    if (kube)
      work.push(
        startOperator(
          {
            ...world,
            kube,
            jobs: () => mirror.all(),
            checkWorld: (...job) => checkWorld(...job, { ...world, environmentsLast: true }),
          },
          all,
        ),
      );
    try {
      await Promise.all(work);
    } finally {
      end.abort();
      await Promise.allSettled(work);
    }
  };
}

function serveJobs(config: Config, world: World, scheduler: Scheduler): Promise<RpcServer> {
  const service = jobService({
    store: world.store,
    records: world.records,
    bundles: world.bundles,
    rollouts: world.rollouts,
    audit: (job, signal) =>
      auditJob(job, { connection: world.nats, runsFolder: join(config.dataPath, "runs"), signal }),
    checkWorld: (spec, module) => checkWorld(spec, module, world),
    objects: world.kube && new TrainingJobs(world.kube),
    onDemand: config.onDemand,
    wake: (job) => {
      if (world.lead.isHeld) scheduler.note(job); // The leader sees what other replicas change in the records.
    },
  });
  return startServer({
    host: config.host,
    port: config.grpcPort,
    services: [service, poolService(poolsOf(world)), fleetView(fleetsOf(world), () => world.fleet.wanted)],
    logger: world.logger,
    metrics: world.metrics,
    tls: world.tls,
    callers: CALLERS,
    healthPort: config.healthPort,
  });
}

function fleetsOf({ kube, fleet, fleetClient }: World): FleetDirectory {
  return kube ? clusterFleets(kube, fleetClient) : localFleet(fleetClient, () => fleet.wanted);
}

function poolsOf({ kube, config, findHost }: World): PoolDirectory {
  return kube && config.envAddress === undefined ? clusterPools(kube) : fixedPools(findHost);
}

/** Opens all that a job's run needs, runs it, and closes it again. */
async function playJob(world: World, job: Job, signals: { wish: AbortSignal; shutdown: AbortSignal }): Promise<Ending> {
  const name = job.spec?.name ?? "";
  try {
    await using stack = new AsyncDisposableStack();
    const parts = await openJob(world, job, stack);
    stack.defer(() => world.fleet.release(name));
    return await runJob(job, parts, signals);
  } catch (error) {
    if (signals.shutdown.aborted || WhetstoneError.from(error).code === "STALE_EPOCH") return { phase: "left" };
    world.logger.error("job_not_started", { job: name, error });
    const message = error instanceof Error ? error.message : String(error);
    if (mayRestart(job)) return { phase: JobPhase.QUEUED, reason: "Restarting", message };
    return { phase: JobPhase.FAILED, reason: "NotStarted", message };
  }
}

async function openJob(world: World, job: Job, stack: AsyncDisposableStack): Promise<JobParts> {
  const { nats, streams } = world;
  const name = job.spec?.name ?? "";
  const logger = world.logger.child({ job: name });
  const ledger = await KvLedger.take(nats, name, `${hostname()}/${process.pid}`, world.lead);
  return {
    ledger,
    episodes: stack.use(new StreamEpisodeIndex(streams, name, logger)),
    queue: new NatsTaskQueue(nats, streams, name, world.lead),
    trainer: trainerOf(world, job, stack),
    fleet: world.fleet,
    train: await tasksOf(job.spec?.train),
    validation: await tasksOf(job.spec?.validation?.dataset),
    board: new StatusBoard(sinksOf(world, name, ledger.epoch), job.status?.validations ?? []),
    logger,
    mayRestart: () => mayRestart(job),
  };
}

/** The installation's, or one that was made for this job. */
function trainerOf(world: World, job: Job, stack: AsyncDisposableStack): TrainerClient {
  if (job.trainerAddress === "") return world.trainer;
  const { config, tls, logger, lead } = world;
  const client = stack.use(createClient(TrainerService, job.trainerAddress, { tls: tls?.to("trainer") }));
  return new TrainerClient({ client, runPathOf: (uid) => join(config.dataPath, "runs", uid), logger, lead });
}

function mayRestart(job: Job): boolean {
  return (job.status?.restarts ?? 0) < job.maxRestarts;
}

async function tasksOf(dataset: Parameters<typeof loadDataset>[0] | undefined): Promise<TaskList> {
  return dataset ? loadDataset(dataset) : listTasks([]);
}

function sinksOf(world: World, name: string, epoch: bigint): BoardSinks {
  return {
    onStep: (value) => tell(world, name, { case: "step", value }, `${name}/step/${value.step}`),
    onValidation: (value) =>
      tell(world, name, { case: "validation", value }, `${name}/validation/${value.step}/${value.variant}`),
    write: async (change) => {
      world.lead.assert();
      await world.store.change(name, (job) => {
        if ((job.status?.epoch ?? 0n) > epoch)
          throw new WhetstoneError("STALE_EPOCH", `job ${name} is run by another controller`);
        if (job.status && !isFinished(job.status.phase)) {
          change(job.status);
          job.status.epoch = epoch;
        }
      });
    },
  };
}

/** Events are news for people and dashboards: what cannot be told must not stop a job. */
async function tell(world: World, job: string, kind: EventKind, msgId: string): Promise<void> {
  const event = { job, at: timestampNow(), kind };
  const subject = eventSubject(job, kind.case === "phaseChanged" ? "phase" : kind.case);
  await world.streams.publish(subject, JobEventSchema, event, { msgId }).catch((error: unknown) => {
    world.logger.warn("event_not_published", { job, kind: kind.case, error });
  });
}

async function setPhase(
  world: World,
  name: string,
  to: Pick<JobStatus, "phase" | "reason" | "message">,
): Promise<KvRecord<Job>> {
  world.lead.assert();
  let from = JobPhase.UNSPECIFIED;
  const stored = await world.store.changeRecord(name, (job) => {
    if (!job.status) return;
    from = job.status.phase;
    Object.assign(job.status, to);
    if (to.phase === JobPhase.RUNNING) job.status.startedAt ??= timestampNow();
    if (isFinished(to.phase)) job.status.finishedAt = timestampNow();
    if (to.reason === "Restarting") job.status.restarts++;
  });
  world.logger.info("job_phase", { job: name, from: JobPhase[from], to: JobPhase[to.phase], reason: to.reason });
  const value = create(PhaseChangedSchema, { from, to: to.phase, reason: to.reason, message: to.message });
  await tell(world, name, { case: "phaseChanged", value }, `${name}/phase/${Date.now()}`);
  return stored;
}

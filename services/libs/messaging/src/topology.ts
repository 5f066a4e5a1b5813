// SPDX-License-Identifier: Apache-2.0
import {
  DiscardPolicy,
  jetstreamManager,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { type NatsConnection, nanos } from "@nats-io/nats-core";
import { Objm } from "@nats-io/obj";
import { groupName, jobId, sleep, WhetstoneError } from "@whetstone/core";
import { API, apiCode, natsError } from "./nats-errors.ts";

// Names and limits of everything that Whetstone keeps in JetStream. One pair of streams a job keeps deletion, limits and
// blast radius per job. Python mirrors these names.

export const EVENT_STREAM = "WS_EVENT";
/** The server's own notices of messages that reached max_deliver or were terminated. */
export const ADVISORY_STREAM = "WS_ADVISORY";
export const JOBS_BUCKET = "ws-jobs";
export const LEDGER_BUCKET = "ws-ledger";
export const CLAIMS_BUCKET = "ws-claims";
/** Modules of user code, by digest. */
export const BUNDLES_BUCKET = "ws-bundles";
/** Env-runners by pool. */
export const POOLS_BUCKET = "ws-pools";
/** Policies that stay served after their jobs. */
export const SERVINGS_BUCKET = "ws-servings";
export const DEFAULT_POOL = "default";

const TOKEN = /^[-_A-Za-z0-9]{1,128}$/;

/** One part of a subject: dots, blanks and wildcards would change its meaning. */
function token(what: string, value: string): string {
  if (TOKEN.test(value)) return value;
  throw new WhetstoneError(
    "INVALID_ARGUMENT",
    `${what} ${JSON.stringify(value)} must be 1 to 128 characters [A-Za-z0-9_-]`,
  );
}

export const taskStream = (job: string): string => `WS_TASK_${jobId(job)}`;
export const episodeStream = (job: string): string => `WS_EPISODE_${jobId(job)}`;
export const taskSubject = (job: string, pool: string = DEFAULT_POOL): string =>
  `ws.${jobId(job)}.task.${token("pool", pool)}`;
export const episodeSubject = (job: string, group: string, sample: number): string =>
  `ws.${jobId(job)}.episode.${groupName(group)}.${sample}`;
/** Subject of one task: at most one message of an episode is queued or in flight. */
export const episodeTaskSubject = (job: string, group: string, sample: number, pool: string = DEFAULT_POOL): string =>
  `${taskSubject(job, pool)}.${groupName(group)}.${sample}`;
export const eventSubject = (job: string, kind: string): string =>
  `ws.${jobId(job)}.event.${token("event kind", kind)}`;

/** What orchestrators have open in a pool; not stored. Without a pool: of all. */
export const poolLoadSubject = (pool?: string): string =>
  `ws-pools.load.${pool === undefined ? "*" : token("pool", pool)}`;

export interface JobStreamLimits {
  /** Tasks waiting or in flight; beyond, a publish is RESOURCE_EXHAUSTED, retry later. Default 10,000. */
  readonly maxTasks?: number;
  /** Bytes of tasks; default 256 MiB. */
  readonly maxTaskBytes?: number;
  /** Bytes of sealed episodes, claims not counted; beyond, a publish is RESOURCE_EXHAUSTED. Default 2 GiB. */
  readonly maxEpisodeBytes?: number;
  /** Copies of each stream: 1 or 3. Default 1. */
  readonly replicas?: number;
}

const PLATFORM_LOOK_MS = 500;
const MIB = 1024 * 1024;
const minutes = (count: number): number => nanos(count * 60_000);
const hours = (count: number): number => minutes(count * 60);

type Config = Partial<StreamConfig> & { readonly name: string };

function taskConfig(job: string, limits: JobStreamLimits): Config {
  return {
    name: taskStream(job),
    subjects: [`ws.${job}.task.>`],
    retention: RetentionPolicy.Workqueue,
    storage: StorageType.File,
    discard: DiscardPolicy.New, // With discard old, undelivered tasks would vanish even from a work queue.
    max_msgs: limits.maxTasks ?? 10_000,
    max_bytes: limits.maxTaskBytes ?? 256 * MIB,
    duplicate_window: minutes(2),
    allow_direct: true,
    num_replicas: limits.replicas ?? 1,
  };
}

/** One message a subject for ever: beyond the dedupe window, the stream itself refuses a second seal of an episode (I1). */
function episodeConfig(job: string, limits: JobStreamLimits): Config {
  return {
    name: episodeStream(job),
    subjects: [`ws.${job}.episode.>`],
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    discard: DiscardPolicy.New,
    discard_new_per_subject: true,
    max_msgs_per_subject: 1,
    max_bytes: limits.maxEpisodeBytes ?? 2048 * MIB,
    duplicate_window: minutes(2),
    allow_direct: true,
    num_replicas: limits.replicas ?? 1,
  };
}

function platformConfigs(replicas: number): Config[] {
  const shared = {
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    discard: DiscardPolicy.Old, // Changes and notices: the newest matter, and a full stream must not stop a job.
    allow_direct: true,
    num_replicas: replicas,
  };
  return [
    { ...shared, name: EVENT_STREAM, subjects: ["ws.*.event.>"], max_age: hours(72), max_bytes: 512 * MIB },
    {
      ...shared,
      name: ADVISORY_STREAM,
      subjects: ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>"],
      max_age: hours(72),
      max_bytes: 64 * MIB,
    },
  ];
}

/** The job's two streams, made or brought to these limits. Safe to repeat. */
export async function ensureJobStreams(
  connection: NatsConnection,
  job: string,
  limits: JobStreamLimits = {},
): Promise<void> {
  const name = jobId(job);
  const manager = await managerOf(connection);
  await ensureStream(manager, taskConfig(name, limits));
  await ensureStream(manager, episodeConfig(name, limits));
}

/** What all jobs share: events, notices, the job and ledger buckets, the stores of claims and bundles. Safe to repeat. */
export async function ensurePlatform(
  connection: NatsConnection,
  options: { readonly replicas?: number } = {},
): Promise<void> {
  const replicas = options.replicas ?? 1;
  const manager = await managerOf(connection);
  for (const config of platformConfigs(replicas)) await ensureStream(manager, config);
  const buckets = new Kvm(connection);
  // Reads go to the leader: a follower may lag, and the ledger is compared and set.
  for (const bucket of [JOBS_BUCKET, LEDGER_BUCKET, POOLS_BUCKET, SERVINGS_BUCKET]) {
    await buckets.create(bucket, { history: 5, replicas, storage: StorageType.File, allow_direct: false });
  }
  for (const bucket of [CLAIMS_BUCKET, BUNDLES_BUCKET]) {
    await new Objm(connection).create(bucket, { storage: StorageType.File, replicas });
  }
}

/** Waits until somebody who may has made what all jobs share. */
export async function awaitPlatform(connection: NatsConnection, signal?: AbortSignal): Promise<void> {
  const manager = await managerOf(connection);
  for (;;) {
    const missing = await manager.streams.info(`OBJ_${BUNDLES_BUCKET}`).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (missing === undefined) return;
    await sleep(PLATFORM_LOOK_MS, signal);
  }
}

async function ensureStream(manager: JetStreamManager, config: Config): Promise<void> {
  try {
    await manager.streams.add(config);
  } catch (error) {
    if (apiCode(error) !== API.streamNameInUse) throw natsError(error, `create stream ${config.name}`);
    await manager.streams.update(config.name, config).catch((cause: unknown) => {
      throw natsError(cause, `update stream ${config.name}`);
    });
  }
}

async function managerOf(connection: NatsConnection): Promise<JetStreamManager> {
  return await jetstreamManager(connection, { checkAPI: false });
}

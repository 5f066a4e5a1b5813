// SPDX-License-Identifier: Apache-2.0
export { type BundleStore, openBundleStore } from "./bundles.ts";
export { sha256Hex } from "./claims/claim.ts";
export type { ClaimOptions, ClaimStore } from "./claims/claim-store.ts";
export { followStoreTroubles, type StoreTrouble } from "./claims/store-troubles.ts";
export { connectNats, type ConnectOptions, type Nats, requireServerVersion } from "./connect.ts";
export { deleteJobStreams } from "./delete-job.ts";
export { jobSize, type JobSize } from "./job-size.ts";
export { openJobs } from "./jobs/bucket.ts";
export { isOutage } from "./nats-errors.ts";
export { type KvCallOptions, type KvChange, type KvRecord, openKv, type OpenKvOptions, type TypedKv } from "./kv.ts";
export { guardNats, type GuardOptions, type NatsRefusal } from "./nats-guard.ts";
export type { Published, PublishFn, PublishOptions } from "./publish.ts";
export { purgeTasks, tasksLeft } from "./purge.ts";
export { PullWindow } from "./pull-window.ts";
export type { PoisonMessage, PullOptions, Task } from "./pull-tasks.ts";
export type { Headers, StoredMessage } from "./stored-message.ts";
export {
  awaitPlatform,
  DEFAULT_POOL,
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  episodeSubject,
  episodeTaskSubject,
  eventSubject,
  JOBS_BUCKET,
  type JobStreamLimits,
  LEDGER_BUCKET,
  poolLoadSubject,
  POOLS_BUCKET,
  SERVINGS_BUCKET,
  taskStream,
  taskSubject,
} from "./topology.ts";
export { type GetOptions, openStreams, type ReadOptions, type TypedStreams } from "./typed-streams.ts";
export { failedWrite, writeRefusal } from "./write-health.ts";

// SPDX-License-Identifier: Apache-2.0
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { type MessageInitShape, toJsonString } from "@bufbuild/protobuf";
import { sleep, WhetstoneError } from "@whetstone/core";
import { jobSize } from "@whetstone/messaging";
import { isFinished, phaseOf } from "@whetstone/messaging/jobs";
import {
  type DeleteJobRequest,
  type DeleteJobResponseSchema,
  type Job,
  JobPhase,
  JobSpecSchema,
} from "@whetstone/proto/jobs/v1/jobs";
import type { Artifacts } from "../../artifacts/artifacts.ts";
import { digestsOf } from "../../artifacts/job-artifacts.ts";
import { countLedger } from "../../loop/batch/kv-ledger.ts";
import { DELETING } from "../deleting.ts";
import type { JobStore } from "../job-store.ts";
import { type PurgeDeps, purgeJob } from "./purge-job.ts";

export interface DeleteJobDeps extends PurgeDeps {
  readonly artifacts: Pick<Artifacts, "collect">;
  /** On Kubernetes: deletes the job's object, whose reconciler purges the rest. False: it has none. */
  readonly deleteObject?: ((name: string, uid: string) => Promise<boolean>) | undefined;
  /** Uids of the jobs that this process is deleting right now. */
  readonly atWork: Set<string>;
}

const LOOK_MS = 200;

type Size = MessageInitShape<typeof DeleteJobResponseSchema>;

/** @throws CONFLICT while the job, or one that starts from its weights, is not finished */
export async function deleteJob(deps: DeleteJobDeps, request: DeleteJobRequest, signal: AbortSignal): Promise<Size> {
  const { name } = request;
  const job = await deps.store.get(name);
  refuseUnfinished(job, name);
  await refuseUsed(deps, job, name);
  const looking = storedSize(deps, job, signal);
  // Whoever deletes hears of a store that fails when it is to delete: by then the job's status says what is to be done.
  const stored = await (request.dryRun ? looking : looking.catch(() => ({})));
  const size = { ...(await sizeOf(deps, job)), ...stored };
  if (request.dryRun) return size;
  await deps.store.change(name, (stored) => {
    if (stored.uid === job.uid && stored.status) Object.assign(stored.status, DELETING);
  });
  if (await deps.deleteObject?.(name, job.uid)) {
    await untilGone(deps.store, job, signal);
    await collectArtifacts(deps, job);
  } else await purgeMarked(deps, job, signal);
  return size;
}

/** Of a job whose status says that it is being deleted. @throws CONFLICT while somebody else in this process does it */
export async function purgeMarked(deps: DeleteJobDeps, job: Job, signal: AbortSignal): Promise<void> {
  const { uid } = job;
  const name = job.spec?.name ?? "";
  if (deps.atWork.has(uid))
    throw new WhetstoneError("CONFLICT", `job "${name}" is being deleted right now`, { retry: "later" });
  deps.atWork.add(uid);
  try {
    await purgeJob(deps, { name, uid }, { runFolder: true, signal });
    await collectArtifacts(deps, job);
  } finally {
    deps.atWork.delete(uid);
  }
}

async function collectArtifacts({ artifacts }: DeleteJobDeps, job: Job): Promise<void> {
  for (const digest of digestsOf(job)) await artifacts.collect(digest);
}

function refuseUnfinished(job: Job, name: string): void {
  const phase = phaseOf(job);
  if (isFinished(phase)) return;
  const advice = `end it first with \`whet jobs cancel ${name}\``;
  throw new WhetstoneError("CONFLICT", `job "${name}" is ${JobPhase[phase].toLowerCase()}: ${advice}`, {
    retry: "never",
  });
}

async function refuseUsed({ store, dataPath }: PurgeDeps, job: Job, name: string): Promise<void> {
  const folder = join(dataPath, "runs", job.uid);
  const uses = ({ value: other }: { value: Job }): boolean =>
    other.uid !== job.uid &&
    !isFinished(phaseOf(other)) &&
    other.spec !== undefined &&
    toJsonString(JobSpecSchema, other.spec).includes(`${folder}/`);
  const users = (await store.records()).filter(uses).map(({ value }) => value.spec?.name);
  if (users.length === 0) return;
  const what = `its weights are what ${users.slice(0, 5).join(", ")} starts from, and that is not finished`;
  throw new WhetstoneError("CONFLICT", `job "${name}" stays: ${what}`, { retry: "never" });
}

async function sizeOf({ nats, dataPath }: PurgeDeps, job: Job): Promise<Size> {
  const folder = join(dataPath, "runs", job.uid);
  const name = job.spec?.name ?? "";
  const { episodes, bytes } = await jobSize(nats, name);
  return {
    episodes: BigInt(episodes),
    streamBytes: BigInt(bytes),
    ledgerEntries: await countLedger(nats, name),
    weights: await countNames(join(folder, "weights"), /^v\d+$/),
    checkpoints: await countNames(join(folder, "checkpoints"), /^step-\d+$/),
    runBytes: BigInt(await bytesBelow(folder)),
  };
}

/** Objects of the run, which the trainer counts, and bodies of episodes. */
async function storedSize({ storedRuns, streams }: PurgeDeps, job: Job, signal: AbortSignal): Promise<Size> {
  const run = await storedRuns.look(job, signal);
  const bodies = await streams.claims.sizeInStore(job.spec?.name ?? "", signal);
  return {
    storedObjects: (run?.objects ?? 0) + bodies.objects,
    storedBytes: (run?.bytes ?? 0n) + BigInt(bodies.bytes),
  };
}

async function countNames(folder: string, pattern: RegExp): Promise<number> {
  const names = await readdir(folder).catch((): string[] => []);
  return names.filter((name) => pattern.test(name)).length;
}

/** Files that weights and checkpoints share by hard links count once. */
async function bytesBelow(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = new Map<number, number>();
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const stats = await stat(join(entry.parentPath, entry.name)).catch(() => undefined);
    if (stats) files.set(stats.ino, stats.size);
  }
  return [...files.values()].reduce((sum, size) => sum + size, 0);
}

/** The leader's reconciler removes the record last. */
async function untilGone(store: JobStore, { uid, spec }: Job, signal: AbortSignal): Promise<void> {
  while ((await store.find(spec?.name ?? ""))?.uid === uid) await sleep(LOOK_MS, signal);
}

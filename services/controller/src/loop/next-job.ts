// SPDX-License-Identifier: Apache-2.0
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { isWanted, jobState, phaseOf, waitsFor } from "@whetstone/messaging/jobs";
import { type Job, JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { DELETING } from "../jobs/deleting.ts";
import { mayRun } from "../operator/training-job/suspend.ts";

/**
 * The job to run now: one that a former controller was running, else one that has to end (its books have to be closed),
 * else the oldest that may run.
 */
export function nextJob(jobs: readonly Job[]): Job | undefined {
  const open = openJobs(jobs);
  const isIn = (kind: ReturnType<typeof jobState>["kind"]) => open.find((job) => jobState(job).kind === kind);
  return open.find(runs) ?? isIn("ending") ?? isIn("queued");
}

/**
 * The jobs that engines and trainer have to be there for: first the running one, until it stands, then those that only wait
 * for their turn, or for them.
 */
export function jobsThatNeedParts(jobs: readonly Job[]): Job[] {
  const open = openJobs(jobs);
  const isNext = ({ desiredState }: Job): boolean =>
    isWanted(desiredState) && (mayRun(waitsFor(desiredState)) || waitsFor(desiredState) === "Updating");
  return [...open.filter(runs), ...open.filter((job) => !runs(job) && isNext(job))];
}

/** Whether a job is being deleted whose run is in an object store, which only a trainer can empty. */
export function deletionNeedsTrainer(jobs: readonly Job[]): boolean {
  return jobs.some(
    ({ spec, status }) => status?.reason === DELETING.reason && spec?.weights?.transport?.kind.case === "objectStore",
  );
}

/** Oldest first. */
function openJobs(jobs: readonly Job[]): Job[] {
  return jobs.filter((job) => jobState(job).kind !== "ended").sort((a, b) => createdMs(a) - createdMs(b));
}

function runs(job: Job): boolean {
  return phaseOf(job) === JobPhase.RUNNING;
}

function createdMs(job: Job): number {
  return job.createdAt ? timestampMs(job.createdAt) : 0;
}

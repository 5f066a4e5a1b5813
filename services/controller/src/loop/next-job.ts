// SPDX-License-Identifier: Apache-2.0
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Job, JobPhase, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import { isFinished } from "../jobs/job-phase.ts";
import { mayRun } from "../operator/training-job/hold.ts";

/**
 * The job to run now: one that a former controller was running, else one to be cancelled (its books have to be closed),
 * else the oldest that is wanted.
 */
export function nextJob(jobs: readonly Job[]): Job | undefined {
  const open = openJobs(jobs);
  return (
    open.find((job) => job.status?.phase === JobPhase.RUNNING) ??
    open.find((job) => job.wish === JobWish.CANCEL) ??
    open.find((job) => job.wish === JobWish.RUN && job.holdReason === "" && job.status?.phase !== JobPhase.SUSPENDED)
  );
}

/**
 * The jobs that engines and trainer have to be there for: first the running one, until it stands, then those that only wait
 * for their turn, or for them.
 */
export function needyJobs(jobs: readonly Job[]): Job[] {
  const open = openJobs(jobs);
  const isRunning = (job: Job): boolean => job.status?.phase === JobPhase.RUNNING;
  const isNext = ({ wish, holdReason }: Job): boolean =>
    wish === JobWish.RUN && (mayRun(holdReason) || holdReason === "Updating");
  return [...open.filter(isRunning), ...open.filter((job) => !isRunning(job) && isNext(job))];
}

/** Oldest first. */
function openJobs(jobs: readonly Job[]): Job[] {
  return jobs
    .filter((job) => !isFinished(job.status?.phase ?? JobPhase.QUEUED))
    .sort((a, b) => createdMs(a) - createdMs(b));
}

function createdMs(job: Job): number {
  return job.createdAt ? timestampMs(job.createdAt) : 0;
}

// SPDX-License-Identifier: Apache-2.0
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Job, JobPhase, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import { isFinished } from "./job-phase.ts";

/**
 * The job to run now: one that a former controller was running, else one to be cancelled (its books have to be closed),
 * else the oldest that is wanted.
 */
export function nextJob(jobs: readonly Job[]): Job | undefined {
  const open = jobs
    .filter((job) => !isFinished(job.status?.phase ?? JobPhase.QUEUED))
    .sort((a, b) => createdMs(a) - createdMs(b));
  return (
    open.find((job) => job.status?.phase === JobPhase.RUNNING) ??
    open.find((job) => job.wish === JobWish.CANCEL) ??
    open.find((job) => job.wish === JobWish.RUN && job.holdReason === "" && job.status?.phase !== JobPhase.SUSPENDED)
  );
}

function createdMs(job: Job): number {
  return job.createdAt ? timestampMs(job.createdAt) : 0;
}

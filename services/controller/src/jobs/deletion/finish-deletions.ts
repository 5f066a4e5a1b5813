// SPDX-License-Identifier: Apache-2.0
import { isAbort, sleep } from "@whetstone/core";
import { isFinished, phaseOf } from "@whetstone/messaging/jobs";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import type { Logger } from "@whetstone/telemetry";
import { DELETING } from "../deleting.ts";
import type { JobMirror } from "../job-mirror.ts";
import { type DeleteJobDeps, purgeMarked } from "./delete-job.ts";

export interface FinishDeps extends DeleteJobDeps {
  readonly jobs: Pick<JobMirror, "all">;
  readonly logger: Logger;
}

export const RETRY_MS = 15_000;

/**
 * Deletes to the end, until `signal`, what was begun and not finished: the object store failed, or the controller was killed.
 * On Kubernetes the reconciler of the job's object does.
 */
export async function finishDeletions(deps: FinishDeps, signal: AbortSignal, retryMs = RETRY_MS): Promise<void> {
  while (!signal.aborted) {
    for (const job of (await deps.jobs.all()).filter((one) => isBegun(one) && !deps.atWork.has(one.uid)))
      await finish(deps, job, signal);
    await sleep(retryMs, signal).catch((error: unknown) => {
      if (!isAbort(error)) throw error;
    });
  }
}

async function finish(deps: FinishDeps, job: Job, signal: AbortSignal): Promise<void> {
  const name = job.spec?.name ?? "";
  try {
    await purgeMarked(deps, job, signal);
    deps.logger.info("job_deleted", { job: name, uid: job.uid });
  } catch (error) {
    if (!signal.aborted) deps.logger.warn("job_not_deleted_yet", { job: name, uid: job.uid, error });
  }
}

function isBegun(job: Job): boolean {
  return isFinished(phaseOf(job)) && job.status?.reason === DELETING.reason;
}

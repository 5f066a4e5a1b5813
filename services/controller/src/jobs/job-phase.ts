// SPDX-License-Identifier: Apache-2.0
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";

const FINISHED: ReadonlySet<JobPhase> = new Set([JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED]);

export function isFinished(phase: JobPhase): boolean {
  return FINISHED.has(phase);
}

/** `end_reason` of a job whose object is being deleted. */
export const DELETED = "Deleted";

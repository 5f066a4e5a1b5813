// SPDX-License-Identifier: Apache-2.0
import { type Nats, openJobs } from "@whetstone/messaging";
import { jobState } from "@whetstone/messaging/jobs";
import type { Job, JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { Logger } from "@whetstone/telemetry";

/** What the orchestrator does with a job's tasks. `pause`: hand them back. `end`: they are void. */
export type JobActivity = "play" | "pause" | "end";

export function activityOf(job: Job): JobActivity {
  switch (jobState(job).kind) {
    case "running":
    case "suspending": // Its step still needs its episodes.
      return "play";
    case "ending":
    case "ended":
      return "end";
    default:
      return "pause";
  }
}

/** Told of a job; the spec is absent when the job is gone. */
export type OnActivity = (job: string, activity: JobActivity, spec: JobSpec | undefined) => void;

/** Reports each job's activity, now and at every change, until the signal aborts. */
export async function watchJobs(
  nats: Nats,
  onActivity: OnActivity,
  { signal, logger }: { readonly signal: AbortSignal; readonly logger: Logger },
): Promise<void> {
  const jobs = await openJobs(nats, { signal, logger });
  try {
    for await (const change of jobs.watch("", signal)) {
      if (change.kind === "delete") onActivity(change.key, "end", undefined);
      else onActivity(change.key, activityOf(change.value), change.value.spec);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

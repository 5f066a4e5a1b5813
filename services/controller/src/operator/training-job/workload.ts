// SPDX-License-Identifier: Apache-2.0
// A queued job's part of Kueue's contract, as its own integrations keep it.
import type { Stored } from "@whetstone/kube";
import { podsReadyChange } from "../kueue/workload.ts";
import type { TrainingJob } from "./schema.ts";
import type { JobFacts, RecordFacts } from "./facts.ts";
import { needsRay } from "./suspend.ts";
import type { Action } from "./action.ts";

export function workloadActions(job: Stored<TrainingJob>, facts: JobFacts, record: RecordFacts): Action[] {
  const { workload } = facts;
  if (!job.spec.queueName) return [];
  if (!workload) return [{ kind: "make-workload" }];
  const stands = record.phase !== "RUNNING" && !hasPods(job, facts);
  const activity = activityAction(job, workload, stands);
  if (activity) return [activity];
  const { evicted, reserved, message } = workload;
  if (evicted && reserved && stands) return [{ kind: "release-workload", reason: evicted, message }];
  const condition = podsReadyChange(workload, isStarted(facts, record));
  return condition ? [{ kind: "set-workload-condition", condition }] : [];
}

function activityAction(
  { spec }: TrainingJob,
  { active, suspended }: NonNullable<JobFacts["workload"]>,
  stands: boolean,
): Action | undefined {
  if (spec.suspend && stands && active) return { kind: "set-workload-active", active: false };
  return !spec.suspend && suspended ? { kind: "set-workload-active", active: true } : undefined;
}

/** Pods that take its quota until they are gone. Those that are there for another job take that one's. */
export function hasPods(job: Stored<TrainingJob>, facts: JobFacts): boolean {
  const { parts } = facts;
  // As long as its record lets it run, some may be made at this very moment.
  const mayCome = parts?.neededBy === job.metadata.name;
  const areLeft = parts !== undefined && parts.neededBy === undefined && parts.pods > 0;
  return hasRay(job, facts) || mayCome || areLeft;
}

/** Of the job's own. */
export function hasRay(job: TrainingJob, { trainer }: JobFacts): boolean {
  return needsRay(job) && trainer !== undefined;
}

/** Engines that are on their way to another version do not count as lost. */
function isStarted({ trainer, engines, workload }: JobFacts, { phase, steps }: RecordFacts): boolean {
  const wasStarted = workload?.podsReady?.ready === true;
  const hasEngines = (wasStarted ? engines?.wanted : engines?.ready) ?? 0;
  return phase === "RUNNING" && hasEngines > 0 && (steps === 0 || (trainer?.ready ?? 0) > 0);
}

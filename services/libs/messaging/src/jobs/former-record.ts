// SPDX-License-Identifier: Apache-2.0
// The only place that knows the fields of a record which desired_state has replaced.
import { type DesiredState, type Job, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import { DESIRED } from "./desired-state.ts";

/** Says a former record's desired state as records do today. */
export function upgradeRecord(job: Job): Job {
  if (job.wish === JobWish.UNSPECIFIED) return job;
  job.desiredState ??= formerState(job);
  return Object.assign(job, { wish: JobWish.UNSPECIFIED, holdReason: "", endReason: "", endMessage: "" });
}

/** What a user had suspended may have had to wait, too: the controller finds that out again when it is resumed. */
function formerState({ wish, holdReason, endReason, endMessage }: Job): DesiredState {
  if (wish === JobWish.CANCEL) return formerEnd(endReason, endMessage);
  if (wish === JobWish.SUSPEND) return DESIRED.suspendByUser();
  return holdReason === "" ? DESIRED.run() : DESIRED.suspendByController(holdReason);
}

function formerEnd(reason: string, message: string): DesiredState {
  if (reason === "") return DESIRED.cancelByUser();
  return reason === "Deleted" ? DESIRED.cancelByDeletion() : DESIRED.failByController(reason, message);
}

// SPDX-License-Identifier: Apache-2.0
import type { ConditionType, Reason } from "./schema.ts";

/** What a condition's reason means, for people, where nothing more is known about this very job. */
export function messageOf(type: ConditionType, reason: Reason): string {
  return OF_TYPE[type][reason] ?? OF_ANY[reason] ?? "";
}

const OF_ANY: Partial<Record<Reason, string>> = {
  Pending: "The job has not been accepted yet.",
  NotRunning: "The job does not run now.",
  Running: "The job runs.",
  Ended: "The job has ended.",
  NotReady: "It is not known yet whether it is ready.",
  Ready: "At least one is ready.",
  SuspendedByUser: "Its user has suspended it: `whet jobs resume`, or spec.suspend: false, lets it go on.",
  Updating: "Its text was changed while it ran: it stops after the running step, and goes on with the new text.",
  Evicted: "Kueue has taken its quota back: it goes on when it is admitted again.",
  WaitingForQuota: "It waits until Kueue admits it.",
  WaitingForTrainer: "It waits until its trainer is there.",
  WaitingForEngines: "It waits until engines are there.",
};

const OF_TYPE: Record<ConditionType, Partial<Record<Reason, string>>> = {
  Accepted: {
    Accepted: "Every field is valid, and what it names is there.",
    Pending: "Nobody has looked at it yet: does a controller run?",
    KueueMissing: "It names a queue, and Kueue is not on this cluster.",
    KubeRayMissing: "Its trainer runs on Ray, and KubeRay is not on this cluster.",
    CannotCheck: "A service that has to be asked did not answer.",
  },
  Admitted: {
    NotQueued: "It has no spec.queueName, so it waits for no quota.",
    QuotaReserved: "Kueue has admitted it.",
  },
  TrainerReady: { Ready: "The trainer answers.", NotNeeded: "The job has no steps to train." },
  InferenceReady: { Ready: "At least one engine serves the job." },
  EnvironmentsReady: {
    Ready: "At least one env-runner is ready.",
    NotNeeded: "The job has no environment of a pool.",
    NotReady: "There is no pool of that name.",
  },
  Progressing: { Progressing: "A batch, step or validation was finished recently, or is expected in time." },
  WeightsInSync: { InSync: "Every serving engine has the newest version." },
  Suspended: {},
  Restarting: { Restarting: "It failed, and is about to be started again." },
  Complete: { Finished: "All steps are done." },
  Failed: {
    InvalidSpec: "The job's text is not valid.",
    Cancelled: "It was cancelled.",
    JobFailed: "It failed.",
    Running: "The job runs, and has not failed.",
  },
};

// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import type { KubeObject } from "@whetstone/kube";
import { z } from "zod";
import {
  conditions,
  type CustomResource,
  int64,
  listBy,
  name,
  passedOn,
  rules,
  text,
  time,
  ownKind,
} from "../custom-resource.ts";

/** Who reconciles objects that do not say otherwise; the schema's default. */
export const MANAGED_BY = "whetstone.dev/controller";
/** Stands for what the garbage collector cannot see: streams, KV keys, the run folder. */
export const JOB_FINALIZER = "whetstone.dev/job";

export const TRAINING_JOBS = ownKind<TrainingJob>("TrainingJob", "trainingjobs");

/** A job as an object of the cluster. */
export interface TrainingJob extends KubeObject {
  spec: TrainingJobSpec;
  status?: TrainingJobStatus;
}

const label = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
const podSet = z.object({
  name: label,
  count: z.int().min(1).max(100_000).default(1),
  template: passedOn<JsonObject>().describe("A pod template."),
  topologyRequest: passedOn<{ readonly required?: string; readonly preferred?: string }>()
    .optional()
    .describe("As in Kueue's Workload."),
});
/** What a queued job reserves; as in Kueue's Workload. */
export type PodSet = z.input<typeof podSet>;

const trainer = z
  .object({
    backend: z
      .enum(["local", "verl"])
      .default("local")
      .describe(
        "local: the trainer that is installed with Whetstone. verl: Ray workers by verl, which need KubeRay on the cluster.",
      ),
    workers: z
      .int()
      .min(0)
      .max(1024)
      .optional()
      .describe("verl: Ray workers; ranks are in them, one a GPU. 0, the default: the rank is in the head."),
    podTemplate: passedOn<JsonObject>()
      .optional()
      .describe(
        "verl: what head and workers have beside what the chart says, e.g. resources, nodeSelector, tolerations. The container is named trainer; its resources are those of the pods that have ranks.",
      ),
  })
  .meta(
    rules({
      rule: "self.backend == 'verl' || !(has(self.workers) || has(self.podTemplate))",
      message: "workers and podTemplate are of backend verl",
    }),
  );

/** A deadline: from a second to ten years. */
const seconds = () => z.int().min(1).max(315_360_000);
const deadlines = z
  .object({
    preRunningSeconds: seconds()
      .optional()
      .describe("From submission to the first start; then the job fails. Absent: it waits."),
    activeSeconds: seconds()
      .optional()
      .describe("From the first start to the end, suspended time included; then the job fails. Absent: none."),
    noProgressSeconds: seconds()
      .default(600)
      .describe("Without any batch, step or validation finished for so long, the condition Progressing turns False."),
  })
  .describe("All may be changed while the job runs.");

const FIXED = ["managedBy", "queueName", "priorityClassName", "podSets", "trainer", "failurePolicy"];

const spec = z
  .object({
    suspend: z
      .boolean()
      .default(false)
      .describe("Stops the job after the running step and frees the engines; nothing is lost. False lets it go on."),
    cancel: z
      .boolean()
      .default(false)
      .describe("Ends the job; what is in flight is voided. Its records stay until the object is deleted."),
    managedBy: text(63)
      .default(MANAGED_BY)
      .describe("Who reconciles the object. Any other value than the default is left to another controller."),
    queueName: name()
      .optional()
      .describe(
        "Kueue LocalQueue that the job waits in. Needs Kueue on the cluster. Absent: it starts as soon as the engines are free.",
      ),
    priorityClassName: name().optional().describe("WorkloadPriorityClass of Kueue, only with queueName."),
    podSets: z
      .array(podSet)
      .min(1)
      .max(18)
      .optional()
      .describe(
        "What the job reserves in its queue, all or nothing: e.g. one for the trainer and one for the engines, with their requests, node selectors and tolerations. Needed with queueName.",
      )
      .meta(listBy("name")),
    trainer: trainer.optional(),
    deadlines: deadlines.optional(),
    failurePolicy: z
      .object({
        maxRestarts: z
          .int()
          .min(0)
          .max(100)
          .default(0)
          .describe("How often a job that failed is started again from its newest checkpoint."),
      })
      .optional(),
    cleanup: z
      .object({
        ttlSecondsAfterFinished: z
          .int()
          .min(0)
          .max(315_360_000)
          .optional()
          .describe("The object, its streams and its books are deleted so long after the end. Absent: never."),
        runFolder: z
          .enum(["Keep", "Delete"])
          .default("Keep")
          .describe("What becomes of weights and checkpoints when the object is deleted."),
      })
      .optional(),
    job: z
      .custom<JsonObject>()
      .describe(
        "What is to be trained: docs/job-reference.md, in protobuf's JSON form, without the name: that is the object's.",
      )
      .meta({ "x-contract": "whetstone.jobs.v1.JobSpec" }),
  })
  .meta(
    rules(
      ...FIXED.map((field) => ({
        rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
        message: "cannot be changed after submission: submit another job",
        fieldPath: `.${field}`,
      })),
      { rule: "has(self.queueName) == has(self.podSets)", message: "queueName and podSets need each other" },
      {
        rule: "has(self.queueName) || !has(self.priorityClassName)",
        message: "priorityClassName is only used with queueName",
      },
      {
        rule: "!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",
        message: "a job that was cancelled stays so: submit another one",
        fieldPath: ".cancel",
      },
    ),
  );
export type TrainingJobSpec = z.input<typeof spec>;

export const CONDITIONS = [
  "Accepted",
  "Admitted",
  "TrainerReady",
  "InferenceReady",
  "EnvironmentsReady",
  "Progressing",
  "WeightsInSync",
  "Suspended",
  "Restarting",
  "Complete",
  "Failed",
] as const;
export type ConditionType = (typeof CONDITIONS)[number];

/** Every reason that a condition may have: a closed list. */
export const REASONS = [
  // Accepted
  "Accepted",
  "InvalidSpec",
  "ModuleMissing",
  "DependencyMissing",
  "CannotCheck",
  "NameTaken",
  "KueueMissing",
  "KubeRayMissing",
  // Admitted
  "NotQueued",
  "WaitingForQuota",
  "Evicted",
  "QuotaReserved",
  // TrainerReady, InferenceReady, EnvironmentsReady
  "Ready",
  "NotReady",
  "NotNeeded",
  "RankLost",
  "WorkerLost",
  "HeadLost",
  "WaitingForTrainer",
  "WaitingForEngines",
  // Progressing
  "Progressing",
  "NoProgress",
  "NatsRefusesWrites",
  // WeightsInSync
  "InSync",
  "Syncing",
  // Suspended, Restarting
  "SuspendedByUser",
  "Updating",
  "Restarting",
  // Complete, Failed
  "Finished",
  "Cancelled",
  "JobFailed",
  "DeadlineExceeded",
  "PreRunningDeadlineExceeded",
  "ActiveDeadlineExceeded",
  // Of several
  "Pending",
  "NotRunning",
  "Running",
  "Ended",
  "Deleting",
] as const;
export type Reason = (typeof REASONS)[number];

const status = z
  .object({
    observedGeneration: int64().optional(),
    state: z
      .enum(["Pending", "Queued", "Running", "Suspended", "Succeeded", "Failed", "Cancelled", "Invalid"])
      .optional()
      .describe("In one word, from the conditions and the job's record."),
    message: text(2048).optional(),
    conditions: conditions(CONDITIONS, REASONS, { maxMessage: 2048 }).max(16).optional().meta(listBy("type")),
    epoch: int64().optional(),
    step: int64().optional(),
    progress: text(32).optional().describe('"3/60".'),
    policyVersion: int64().optional(),
    lag: int64().optional().describe("Versions that the slowest serving engine is behind the newest one."),
    environments: text(32).optional().describe('"2/4": env-runners ready of those wanted.'),
    restarts: int64().optional(),
    validations: int64().optional(),
    startTime: time().optional(),
    completionTime: time().optional(),
    lastProgressTime: time().optional(),
    counts: z
      .object({
        dispatched: int64(),
        trained: int64(),
        voided: int64(),
        baseline: int64().optional(),
        inFlight: int64(),
      })
      .optional()
      .describe("The books: dispatched = trained + voided + baseline + inFlight."),
    modelPath: text(4096).optional().describe("Folder of the newest weights."),
    lastCheckpoint: z.object({ step: int64(), path: text(4096) }).optional(),
    workload: text(253).optional().describe("Name of the Kueue Workload that was made for the job."),
  })
  .describe("Written by the controller, at most every 5 seconds except when a condition changes.");
/** In a word, for people. */
export type TrainingJobState = NonNullable<z.output<typeof status>["state"]>;
export type TrainingJobStatus = z.output<typeof status>;

export const TRAINING_JOB: CustomResource = {
  kind: "TrainingJob",
  plural: "trainingjobs",
  shortName: "tj",
  description: "A training job. Its name is the job's name, its uid the job's uid.",
  maxNameLength: 52,
  columns: [
    { name: "State", type: "string", jsonPath: ".status.state" },
    { name: "Step", type: "string", jsonPath: ".status.progress", description: "Steps done of the steps wanted." },
    { name: "Policy", type: "integer", jsonPath: ".status.policyVersion", description: "Newest trained version." },
    { name: "Lag", type: "integer", jsonPath: ".status.lag", description: "Versions that the engines are behind." },
    {
      name: "Envs",
      type: "string",
      jsonPath: ".status.environments",
      description: "Env-runners ready of those wanted.",
    },
    { name: "Restarts", type: "integer", jsonPath: ".status.restarts" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Queue", type: "string", jsonPath: ".spec.queueName", priority: 1 },
    { name: "Checkpoint", type: "integer", jsonPath: ".status.lastCheckpoint.step", priority: 1 },
    { name: "Message", type: "string", jsonPath: ".status.message", priority: 1 },
  ],
  rules: [
    {
      rule: "self.spec.job.loop.steps >= oldSelf.spec.job.loop.steps || !has(oldSelf.status) || !has(oldSelf.status.step) || self.spec.job.loop.steps >= oldSelf.status.step",
      message: "must not be below the steps done",
      fieldPath: ".spec.job.loop.steps",
    },
    {
      rule: "!has(oldSelf.status) || !has(oldSelf.status.completionTime) || self.spec.job.loop.steps == oldSelf.spec.job.loop.steps",
      message: "the job has ended: submit another one",
      fieldPath: ".spec.job.loop.steps",
    },
  ],
  spec,
  status,
};

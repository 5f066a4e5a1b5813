// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import type { Condition, KubeObject, ResourceType } from "@whetstone/kube";

/** Who reconciles objects that do not say otherwise; the schema's default. */
export const MANAGED_BY = "whetstone.dev/controller";
/** Stands for what the garbage collector cannot see: streams, KV keys, the run folder. */
export const JOB_FINALIZER = "whetstone.dev/job";

export const TRAINING_JOBS: ResourceType<TrainingJob> = {
  apiVersion: "whetstone.dev/v1alpha1",
  kind: "TrainingJob",
  plural: "trainingjobs",
  namespaced: true,
};

/** A job as an object of the cluster: charts/whetstone-crds has the schema with every field's meaning. */
export interface TrainingJob extends KubeObject {
  spec: TrainingJobSpec;
  status?: TrainingJobStatus;
}

export interface TrainingJobSpec {
  suspend?: boolean;
  cancel?: boolean;
  managedBy?: string;
  queueName?: string;
  priorityClassName?: string;
  podSets?: PodSet[];
  fleet?: string;
  trainer?: { backend?: "local" | "verl"; workers?: number; podTemplate?: JsonObject };
  deadlines?: { preRunningSeconds?: number; activeSeconds?: number; noProgressSeconds?: number };
  failurePolicy?: { maxRestarts?: number };
  cleanup?: { ttlSecondsAfterFinished?: number; runFolder?: "Keep" | "Delete" };
  /** JobSpec in protobuf's JSON form, without the name: that is the object's. */
  job: JsonObject;
}

/** What a queued job reserves; as in Kueue's Workload. */
export interface PodSet {
  name: string;
  count?: number;
  template: JsonObject;
  topologyRequest?: JsonObject;
}

/** In a word, for people. */
export type TrainingJobState =
  "Pending" | "Queued" | "Running" | "Suspended" | "Succeeded" | "Failed" | "Cancelled" | "Invalid";

export interface TrainingJobStatus {
  observedGeneration?: number;
  state?: TrainingJobState;
  message?: string;
  conditions?: Condition[];
  epoch?: number;
  step?: number;
  /** "3/60". */
  progress?: string;
  policyVersion?: number;
  /** Versions that the slowest serving engine is behind the newest one. */
  lag?: number;
  /** "2/4": env-runners ready of those wanted. */
  environments?: string;
  restarts?: number;
  validations?: number;
  startTime?: string;
  completionTime?: string;
  lastProgressTime?: string;
  counts?: { dispatched: number; trained: number; voided: number; inFlight: number };
  modelPath?: string;
  lastCheckpoint?: { step: number; path: string };
  workload?: string;
}

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

/** Every reason that a condition may have; the schema lists the same ones. */
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

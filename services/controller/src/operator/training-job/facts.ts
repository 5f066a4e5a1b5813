// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { DESIRED } from "@whetstone/messaging/jobs";
import {
  type DesiredState,
  type EpisodeCounts,
  EpisodeCountsSchema,
  type Job,
  JobPhase,
  type JobStatus,
  JobStatusSchema,
} from "@whetstone/proto/jobs/v1/jobs";
import type { Violation } from "../../jobs/validation/violation.ts";

export type RecordPhase = "QUEUED" | "RUNNING" | "SUSPENDED" | "SUCCEEDED" | "FAILED" | "CANCELLED";

/** A job's record in KV, as far as its object is concerned. */
export interface RecordFacts {
  readonly uid: string;
  readonly generation: number;
  readonly phase: RecordPhase;
  readonly reason: string;
  readonly message: string;
  readonly desired: DesiredState;
  readonly steps: number;
  readonly step: number;
  readonly policyVersion: number;
  readonly epoch: number;
  readonly restarts: number;
  readonly counts: {
    readonly dispatched: number;
    readonly trained: number;
    readonly voided: number;
    readonly baseline: number;
    readonly inFlight: number;
  };
  readonly validations: number;
  readonly modelPath: string;
  readonly createdAtMs: number;
  readonly startedAtMs: number | undefined;
  readonly finishedAtMs: number | undefined;
}

/** What looking at the job's text brought. */
export type Intake =
  /** Nobody looked: there was no need to. */
  | { readonly kind: "unknown" }
  | { readonly kind: "valid" }
  | { readonly kind: "invalid"; readonly violations: readonly Violation[] }
  /** The text may be right: what it names is not there, or not as it has to be. */
  | { readonly kind: "missing"; readonly violations: readonly Violation[] }
  | { readonly kind: "module-missing"; readonly digest: string }
  /** Something that this kind of job needs is not on the cluster. */
  | { readonly kind: "unsupported"; readonly reason: "KueueMissing" | "KubeRayMissing"; readonly message: string }
  /** A service that has to be asked did not answer. */
  | { readonly kind: "unavailable"; readonly message: string };

/** The Kueue Workload of the job. */
export interface WorkloadFacts {
  readonly name: string;
  readonly admitted: boolean;
  readonly reserved: boolean;
  /** The reason. Undefined: it is not. */
  readonly evicted: string | undefined;
  readonly finished: boolean;
  /** What it was last told of the job's pods. */
  readonly podsReady: { readonly ready: boolean; readonly reason: string } | undefined;
  /** False: out of its queue until somebody says otherwise. */
  readonly active: boolean;
  /** It is inactive because its job is suspended. */
  readonly suspended: boolean;
  /** Why it waits, from its own conditions. */
  readonly message: string;
}

/** Ready parts of those wanted; undefined: nobody could say. */
export interface Readiness {
  readonly ready: number;
  readonly wanted: number;
  /** Why not, for people. */
  readonly message?: string;
  /** Why not, where it is known. */
  readonly reason?: "WorkerLost" | "HeadLost";
}

/** Engines and trainer of the installation, where they come only when a job needs them. */
export interface PartsFacts {
  /** What a job that could run has to wait for. */
  readonly missing: "engines" | "trainer" | undefined;
  /** How much of them is there, or going; counted when no job needs them. */
  readonly pods: number;
  /** The job that they are there for, by name. */
  readonly neededBy: string | undefined;
}

export interface JobFacts {
  readonly nowMs: number;
  /** Of the same name; perhaps another job's. */
  readonly record: RecordFacts | undefined;
  /** The object's `spec.job` is not what the record holds. */
  readonly isSpecChanged: boolean;
  readonly intake: Intake;
  readonly workload: WorkloadFacts | undefined;
  /** With Ray: undefined, too, when there is no RayCluster. */
  readonly trainer: Readiness | undefined;
  readonly environments: Readiness | undefined;
  /** Engines, and the oldest version of this job that a serving one has. */
  readonly engines: (Readiness & { readonly oldestVersion: number | undefined }) | undefined;
  /** Undefined: they are always there. */
  readonly parts: PartsFacts | undefined;
  readonly checkpoint: { readonly step: number; readonly path: string } | undefined;
  /** Why NATS takes no writes, for people: the record says nothing new then. Undefined: it does. */
  readonly natsRefusal?: string | undefined;
  /** What is amiss with the installation; the record says it too, once it can be written. */
  readonly notices?: readonly string[] | undefined;
}

export function isEnded({ phase }: Pick<RecordFacts, "phase">): boolean {
  return phase === "SUCCEEDED" || phase === "FAILED" || phase === "CANCELLED";
}

/** Why there is no record yet, for people. */
export function intakeMessage({ intake, record }: JobFacts): string {
  if (record)
    return `A job of this name exists already (uid ${record.uid}), and it is not this object's: choose another name.`;
  if (intake.kind === "invalid" || intake.kind === "missing")
    return intake.violations.map(({ path, reason }) => `${path}: ${reason}`).join("; ");
  if (intake.kind === "module-missing")
    return `spec.job.module.digest: module ${intake.digest} is not in the store: push it with \`whet bundle push\`.`;
  return intake.kind === "unsupported" || intake.kind === "unavailable" ? intake.message : "";
}

/** Undefined: no engine serves it. */
export function lagOf({ engines }: JobFacts, record: RecordFacts): number | undefined {
  if (record.phase !== "RUNNING" || engines?.oldestVersion === undefined) return undefined;
  return Math.max(0, record.policyVersion - engines.oldestVersion);
}

export function recordFacts(job: Job): RecordFacts {
  const status = job.status ?? create(JobStatusSchema);
  const ms = (at: Timestamp | undefined): number | undefined => at && timestampMs(at);
  return {
    ...{ uid: job.uid, generation: Number(job.generation), steps: job.spec?.loop?.steps ?? 0 },
    desired: job.desiredState ?? DESIRED.run(),
    ...progressFacts(status),
    ...{ createdAtMs: ms(job.createdAt) ?? 0, startedAtMs: ms(status.startedAt), finishedAtMs: ms(status.finishedAt) },
  };
}

type Times = "createdAtMs" | "startedAtMs" | "finishedAtMs";
type OfStatus = Omit<RecordFacts, "uid" | "generation" | "desired" | "steps" | Times>;

function progressFacts(status: JobStatus): OfStatus {
  const { reason, message, step, restarts, modelPath, validations } = status;
  return {
    phase: (JobPhase[status.phase || JobPhase.QUEUED] ?? "QUEUED") as RecordPhase,
    ...{ reason, message, step, restarts, modelPath },
    policyVersion: Number(status.policyVersion),
    epoch: Number(status.epoch),
    counts: countFacts(status.episodes ?? create(EpisodeCountsSchema)),
    validations: validations.length,
  };
}

function countFacts({ dispatched, trained, voided, baseline, inFlight }: EpisodeCounts): RecordFacts["counts"] {
  return {
    dispatched: Number(dispatched),
    trained: Number(trained),
    voided: Number(voided),
    baseline: Number(baseline),
    inFlight: Number(inFlight),
  };
}

// SPDX-License-Identifier: Apache-2.0
import type { BatchManifest, DispatchRecord, PolicyRecord, RolloutTask } from "@whetstone/proto/events/v1/events";
import type { DroppedEpisode, JobSpec, StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import type { EvaluateResult, Notice, TrainProgress, TrainResult, Weights } from "@whetstone/proto/trainer/v1/trainer";
import type { FindEpisode } from "./batch/sealed-episode.ts";

/** The job's books in KV. Every write is refused once another controller has taken a newer epoch. */
export interface Ledger {
  readonly epoch: bigint;
  /** @throws STALE_EPOCH when another controller has taken the job over */
  verify(): Promise<void>;
  dispatches(): Promise<DispatchRecord[]>;
  saveDispatch(record: DispatchRecord): Promise<void>;
  /** Steps that have a manifest. */
  collected(): Promise<ReadonlySet<number>>;
  /** The manifest's bytes as stored; undefined when the batch has none yet. */
  manifest(step: number): Promise<Uint8Array | undefined>;
  /** Create-if-absent: returns what is stored, which is the former one when there was one. */
  createManifest(manifest: BatchManifest): Promise<Uint8Array>;
  steps(): Promise<StepRecord[]>;
  /** Entries of the step's manifest that it could not train; none while its record is not written. */
  dropped(step: number): Promise<DroppedEpisode[]>;
  saveStep(record: StepRecord): Promise<void>;
  policy(): Promise<PolicyRecord | undefined>;
  savePolicy(record: PolicyRecord): Promise<void>;
}

/** Sealed episodes of the job, in memory, kept up to date from the stream's headers. */
export interface EpisodeIndex {
  readonly find: FindEpisode;
  readonly size: number;
  /** Resolves when something was sealed since `size` was `seen`. */
  grown(seen: number, signal: AbortSignal): Promise<void>;
  /** Ids in the order of their seals, without the first `seen`. */
  sealedAfter(seen: number): Iterable<string>;
}

export interface TaskQueue {
  /** Publishes what is not in the queue already; waits while the queue is full. Takes tasks as it goes, never all at once. */
  publish(tasks: AsyncIterable<RolloutTask>, signal: AbortSignal): Promise<void>;
  purge(): Promise<void>;
}

/** What a trainer holds after `configure`. */
export interface TrainerState {
  /** Optimizer steps done. */
  readonly step: number;
  readonly weights: Weights;
}

/** What a trainer has to know of a job, now and whenever it comes back. */
export interface TrainedJob {
  readonly spec: JobSpec;
  readonly uid: string;
  readonly ledger: Pick<Ledger, "epoch" | "manifest" | "dropped">;
  /** Called with what holds now: how far a trainer is that gets ready, and what it found in the run folder. */
  onNotices?(notices: readonly Notice[]): void;
}

/** Phase of a step that stands still until something outside the trainer has changed (trainer.proto). */
export const WAITING = "waiting";

export interface Trainer {
  configure(job: TrainedJob, signal: AbortSignal): Promise<TrainerState>;
  /**
   * Trains the manifest of a step; survives the trainer's restarts by configuring again, training again what came after
   * its newest checkpoint, and asking again.
   */
  trainStep(step: number, onProgress: (progress: TrainProgress) => void, signal: AbortSignal): Promise<TrainResult>;
  /**
   * Losses of a manifest's demonstrations under the version of its step, which is the newest. Survives restarts as
   * `trainStep` does. Undefined: the trainer has gone on from that version.
   */
  evaluate(manifest: BatchManifest, signal: AbortSignal): Promise<EvaluateResult | undefined>;
  /** Writes again what of a version is damaged. @throws NOT_FOUND where it has no whole copy of it */
  repairWeights(policyVersion: bigint): Promise<void>;
  /** Milliseconds spent waiting for a trainer that was away, since the last call of this function. */
  takeWaitedMs(): number;
}

/** How a job's policy is served. */
export interface Served {
  /** Of its share of the engines, beside other jobs'. Absent: 1. */
  readonly weight?: number;
  /** Called once when an engine refuses the policy again: what is damaged of it is written anew. */
  readonly repair?: () => Promise<void>;
}

export interface Fleet {
  /** Brings the job's share of the engines to this policy; resolves when at least one serves it, with their number. */
  serve(policy: PolicyRecord, signal: AbortSignal, how?: Served): Promise<number>;
  /** Stops repairing engines for the policy and forgets it. */
  release(policy: string): Promise<void>;
}

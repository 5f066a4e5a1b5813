// SPDX-License-Identifier: Apache-2.0
/** What an audit is fed with, what it keeps of it, and what it answers. */
import type { BatchManifest } from "@whetstone/proto/events/v1/events";
import type { Episode } from "@whetstone/proto/types/v1/types";

import type { Violation, ViolationKind } from "./audit-report.ts";
import type { TokenCheck } from "./audit-tokens.ts";

/**
 * What the job's record says; it decides what still may be on its way. "ended": cancelled or failed, what was in flight
 * is voided. "suspended": its tasks are taken out of the stream and put back when it goes on.
 */
export interface JobFacts {
  readonly name: string;
  readonly phase: "running" | "suspended" | "succeeded" | "ended";
  /** Steps between two checkpoints, at least 1. */
  readonly checkpointEvery: number;
}

/** A manifest as it lies in the ledger. `digest`: SHA-256 of its bytes, lower-case hex. */
export interface LedgerBatch {
  readonly manifest: BatchManifest;
  readonly digest: string;
}

/** `state.json` of the newest checkpoint. */
export interface CheckpointFacts {
  /** Steps done. */
  readonly step: number;
  readonly consumed: readonly ConsumedBatch[];
}

/** `episodes` were trained, `dropped` are the other entries of the batch. */
export interface ConsumedBatch {
  readonly step: number;
  readonly batchDigest: string;
  readonly episodes: number;
  readonly dropped: readonly string[];
}

/** A message of the EPISODE stream. `digest`: of the body's bytes as they were read. */
export interface SealedEpisode {
  readonly id: string;
  readonly sequence: bigint;
  readonly digest: string;
  /** Absent: the body could not be decoded. */
  readonly episode?: Episode;
}

/** An episode that a manifest says is trained or, as a baseline, used. */
export interface Entry {
  readonly step: number;
  readonly group: string;
  readonly sequence: bigint;
  readonly digest: string;
  readonly reward: number;
  readonly isBaseline: boolean;
  readonly maxPolicyLag: number;
  bodyFound: boolean;
  /** Its body is the one that was named, and its tokens were looked at. */
  isChecked: boolean;
  /** What is wrong with its body; no violation if the step dropped it. */
  readonly faults: { readonly kind: ViolationKind; readonly reason: string }[];
  tokens: TokenCheck;
  /** The step could not train it: voided, as its record and the checkpoint say. */
  isDropped: boolean;
}

/** An id that a dispatch record stands for. */
export interface Dispatched {
  readonly step: number;
  readonly group: string;
  readonly isBaseline: boolean;
}

export interface AuditResult {
  readonly job: string;
  readonly dispatched: number;
  readonly trained: number;
  readonly voided: number;
  readonly baseline: number;
  readonly inFlight: number;
  readonly lost: number;
  readonly duplicated: number;
  readonly stale: number;
  readonly unlabelled: number;
  /** Trained episodes whose tokens were read. */
  readonly checkedEpisodes: number;
  /** The first 20. */
  readonly violations: readonly Violation[];
}

export function nameOf(isBaseline: boolean): string {
  return isBaseline ? "a baseline" : "an episode to train";
}

/** What a batch says it does with an entry. */
export function claimOf({ isBaseline }: Entry): string {
  return isBaseline ? "uses" : "trains";
}

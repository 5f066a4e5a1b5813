// SPDX-License-Identifier: Apache-2.0
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";

/** Of an episode's summary, what manifests, metrics and scores are made of. A job may have millions of them. */
export interface KeptSummary extends Pick<
  EpisodeSummary,
  | "attempt"
  | "terminationReason"
  | "failureClass"
  | "reward"
  | "isCorrect"
  | "minPolicyVersion"
  | "maxPolicyVersion"
  | "sampledTokens"
  | "unlabelledTokens"
  | "digest"
  | "steps"
  | "promptTokens"
  | "demonstrationTokens"
  | "failureMessage"
  | "failurePhase"
  | "notTrainable"
> {
  readonly totalMs: number;
  readonly modelMs: number;
}

/** A sealed episode as the controller knows it: never its token ids. */
export interface SealedEpisode {
  /** In the job's EPISODE stream. */
  readonly sequence: bigint;
  readonly summary: KeptSummary;
}

export type FindEpisode = (episodeId: string) => SealedEpisode | undefined;

// SPDX-License-Identifier: Apache-2.0
import { durationMs } from "../../jobs/duration.ts";
import type { VoidedEntry } from "@whetstone/proto/events/v1/events";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { FailureClass, TerminationReason } from "@whetstone/proto/types/v1/types";

/** What the controller knows of a batch from its summaries; the trainer's metrics join them in the step's record. */
export function batchMetrics(
  summaries: readonly EpisodeSummary[],
  voided: readonly VoidedEntry[],
): Record<string, number> {
  const counts = { "rollout/episodes": summaries.length, "rollout/voided": voided.length, ...voidedMetrics(voided) };
  if (summaries.length === 0) return counts; // Of nothing there is no mean, and 0 would be one.
  const metrics: Record<string, number> = {
    ...counts,
    "rollout/success": mean(summaries, (s) => (s.isCorrect ? 1 : 0)),
    "rollout/reward": mean(summaries, (s) => s.reward),
    "rollout/steps": mean(summaries, (s) => s.steps),
    "rollout/sampled_tokens": mean(summaries, (s) => s.sampledTokens),
    "rollout/prompt_tokens": mean(summaries, (s) => s.promptTokens),
    "rollout/seconds": mean(summaries, (s) => (s.timing?.total ? durationMs(s.timing.total) / 1000 : 0)),
    "rollout/model_seconds": mean(summaries, (s) => (s.timing?.model ? durationMs(s.timing.model) / 1000 : 0)),
    "rollout/retried": mean(summaries, (s) => (s.attempt > 1 ? 1 : 0)),
  };
  for (const [reason, share] of reasonShares(summaries)) metrics[`rollout/ended/${reason}`] = share;
  return metrics;
}

/** How many were voided, by failure class and by reason; only those that occur. */
function voidedMetrics(voided: readonly VoidedEntry[]): Record<string, number> {
  const counts: Record<string, number> = {};
  const count = (name: string): void => void (counts[name] = (counts[name] ?? 0) + 1);
  for (const { failureClass, reason } of voided) {
    if (failureClass !== FailureClass.NONE) count(`voided/${FailureClass[failureClass].toLowerCase()}`);
    count(`voided/reason/${reason}`);
  }
  return counts;
}

function reasonShares(summaries: readonly EpisodeSummary[]): Map<string, number> {
  const shares = new Map<string, number>();
  for (const summary of summaries) {
    const reason = TerminationReason[summary.terminationReason].toLowerCase();
    shares.set(reason, (shares.get(reason) ?? 0) + 1 / summaries.length);
  }
  return shares;
}

function mean(summaries: readonly EpisodeSummary[], value: (summary: EpisodeSummary) => number): number {
  return summaries.reduce((sum, summary) => sum + value(summary), 0) / summaries.length;
}

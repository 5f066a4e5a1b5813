import { durationMs } from "./duration.ts";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { TerminationReason } from "@whetstone/proto/types/v1/types";

/** What the controller knows of a batch from its summaries; the trainer's metrics join them in the step's record. */
export function batchMetrics(summaries: readonly EpisodeSummary[], voided: number): Record<string, number> {
  const metrics: Record<string, number> = {
    "rollout/episodes": summaries.length,
    "rollout/voided": voided,
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

function reasonShares(summaries: readonly EpisodeSummary[]): Map<string, number> {
  const shares = new Map<string, number>();
  for (const summary of summaries) {
    const reason = TerminationReason[summary.terminationReason].toLowerCase();
    shares.set(reason, (shares.get(reason) ?? 0) + 1 / summaries.length);
  }
  return shares;
}

function mean(summaries: readonly EpisodeSummary[], value: (summary: EpisodeSummary) => number): number {
  return summaries.length === 0 ? 0 : summaries.reduce((sum, summary) => sum + value(summary), 0) / summaries.length;
}

// SPDX-License-Identifier: Apache-2.0
import { parseEpisodeId } from "@whetstone/core";
import type { VoidedEntry } from "@whetstone/proto/events/v1/events";
import { FailureClass, TerminationReason } from "@whetstone/proto/types/v1/types";
import type { KeptSummary } from "./sealed-episode.ts";

/** Means over the episodes of a batch. */
const MEANS: Readonly<Record<string, (summary: KeptSummary) => number>> = {
  "rollout/success": (s) => (s.isCorrect ? 1 : 0),
  "rollout/reward": (s) => s.reward,
  "rollout/steps": (s) => s.steps,
  "rollout/sampled_tokens": (s) => s.sampledTokens,
  "rollout/prompt_tokens": (s) => s.promptTokens,
  "rollout/seconds": (s) => s.totalMs / 1000,
  "rollout/model_seconds": (s) => s.modelMs / 1000,
  "rollout/retried": (s) => (s.attempt > 1 ? 1 : 0),
};

/** What the controller knows of a batch from its summaries, added one by one; the trainer's metrics join them in the step's record. */
export class BatchMetrics {
  readonly #sums = new Counts();
  readonly #endings = new Counts();
  readonly #voided = new Counts();
  #episodes = 0;
  #baselines = 0;
  #baselineReward = 0;
  readonly #filtered = new Set<string>();

  add(summary: KeptSummary): void {
    this.#episodes++;
    for (const [name, of] of Object.entries(MEANS)) this.#sums.add(name, of(summary));
    this.#endings.add(`rollout/ended/${TerminationReason[summary.terminationReason].toLowerCase()}`);
  }

  addBaseline(reward: number): void {
    this.#baselines++;
    this.#baselineReward += reward;
  }

  /** By failure class and by reason. */
  addVoided({ episodeId, failureClass, reason }: VoidedEntry): void {
    if (reason === "NoSignal") this.#filtered.add(parseEpisodeId(episodeId).group);
    this.#voided.add("rollout/voided");
    if (failureClass !== FailureClass.NONE) this.#voided.add(`voided/${FailureClass[failureClass].toLowerCase()}`);
    this.#voided.add(`voided/reason/${reason}`);
  }

  /** Of nothing there is no mean, and 0 would be one. */
  metrics(): Record<string, number> {
    const counts = { "rollout/episodes": this.#episodes, "rollout/voided": 0, ...this.#voided.over(1) };
    const baseline = this.#baselines > 0 && {
      "baseline/episodes": this.#baselines,
      "baseline/reward": this.#baselineReward / this.#baselines,
    };
    const filtered = this.#filtered.size > 0 && { groups_filtered: this.#filtered.size };
    return {
      ...counts,
      ...filtered,
      ...this.#sums.over(this.#episodes),
      ...this.#endings.over(this.#episodes),
      ...baseline,
    };
  }
}

/** Sums by name; only those that something was added to. */
class Counts {
  readonly #sums = new Map<string, number>();

  add(name: string, value = 1): void {
    this.#sums.set(name, (this.#sums.get(name) ?? 0) + value);
  }

  over(divisor: number): Record<string, number> {
    return Object.fromEntries(this.#sums.entries().map(([name, sum]) => [name, sum / divisor]));
  }
}

// SPDX-License-Identifier: Apache-2.0
import { passAtK, type TaskAttempts } from "@whetstone/core";
import { FailureTally } from "../batch/commonest-failure.ts";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import type { KeptSummary } from "../batch/sealed-episode.ts";

/** Scores of one validation variant. */
export interface ValidationScore {
  readonly tasks: number;
  readonly episodes: number;
  readonly voided: number;
  readonly success: number;
  readonly meanReward: number;
  readonly passAtK: Record<number, number>;
  /** Of those voided, for people. */
  readonly commonestFailure: string;
  /** Of what the trainer evaluated. */
  readonly metrics?: Readonly<Record<string, number>>;
}

/** What an episode is scored by. */
type Scored = Pick<KeptSummary, "failureClass" | "failurePhase" | "failureMessage" | "reward" | "isCorrect">;

/**
 * Scores sealed validation episodes one by one; those that failed for reasons that are not the policy's are left out (I6).
 * Attempts at a task come one after the other. There may be millions of tasks: of each only the counts are kept, and tasks
 * with the same counts are counted together.
 */
export class ValidationTally {
  readonly #attempts: number;
  readonly #failures = new FailureTally();
  /** Tasks by scored and correct attempts, "4/1". */
  readonly #tasks = new Map<string, TaskAttempts & { tasks: number }>();
  #task = { index: -1, attempts: 0, correct: 0 };
  #episodes = 0;
  #voided = 0;
  #correct = 0;
  #reward = 0;

  /** @param attempts  at each task */
  constructor(attempts: number) {
    this.#attempts = attempts;
  }

  add(index: number, summary: Scored): void {
    if (index !== this.#task.index) this.#begin(index);
    if (!isScored(summary)) {
      this.#voided++;
      this.#failures.add({ summary, reason: "" });
      return;
    }
    this.#episodes++;
    this.#reward += summary.reward;
    this.#task.attempts++;
    if (!summary.isCorrect) return;
    this.#correct++;
    this.#task.correct++;
  }

  /** Of all that was added. */
  score(): ValidationScore {
    this.#begin(-1);
    const perEpisode = (sum: number): number => (this.#episodes === 0 ? 0 : sum / this.#episodes);
    return {
      tasks: this.#tasks.values().reduce((sum, { tasks }) => sum + tasks, 0),
      episodes: this.#episodes,
      voided: this.#voided,
      success: perEpisode(this.#correct),
      meanReward: perEpisode(this.#reward),
      passAtK: this.#passAtKs(),
      commonestFailure: this.#failures.commonest(),
    };
  }

  /** Closes the task at hand; one without a scored attempt does not count. */
  #begin(index: number): void {
    const { attempts, correct } = this.#task;
    this.#task = { index, attempts: 0, correct: 0 };
    if (attempts === 0) return;
    const key = `${attempts}/${correct}`;
    const alike = this.#tasks.get(key) ?? { attempts, correct, tasks: 0 };
    alike.tasks++;
    this.#tasks.set(key, alike);
  }

  #passAtKs(): Record<number, number> {
    const result: Record<number, number> = {};
    for (let k = 1; k <= this.#attempts; k *= 2) {
      const scored = [...this.#tasks.values()].filter(({ attempts }) => attempts >= k);
      const tasks = scored.reduce((sum, alike) => sum + alike.tasks, 0);
      if (tasks > 0) result[k] = scored.reduce((sum, alike) => sum + alike.tasks * passAtK(alike, k), 0) / tasks;
    }
    return result;
  }
}

function isScored(summary: Scored): boolean {
  return (
    summary.failureClass === FailureClass.NONE ||
    summary.failureClass === FailureClass.POLICY ||
    summary.failureClass === FailureClass.DEADLINE
  );
}

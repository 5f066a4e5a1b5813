// SPDX-License-Identifier: Apache-2.0
import type { StepOptions } from "../base-env.ts";
import { grade, type RewardFunction } from "./reward-function.ts";
import type { Info } from "../types.ts";
import { MultiTurnEnvironment, type Turn } from "./multi-turn.ts";

export interface ReviseOptions<Task extends Info = Info> {
  readonly task: Task;
  readonly rewardFunction: RewardFunction;
  /** Answers, at least 1. Default 2. */
  readonly maxTurns?: number | undefined;
  /** `verdict` (default): a right answer ends the episode. `blind`: every answer but the last is asked to be reviewed. */
  readonly feedback?: "verdict" | "blind" | undefined;
  /** Paid beside, times the change of the grade, from the second answer on. Default 0. */
  readonly improvementBonus?: number | undefined;
}

export const REVIEW_REQUEST = "Your previous answer may contain a mistake. Please review it.";

/**
 * Asks again. The reward of a turn is the change of the grade, `r(t) - r(t-1)` with `r(0) = 0`, so that a trajectory's
 * reward is the last answer's grade: nothing is gained by being wrong first. With `improvementBonus` b the change from the
 * first answer to the last is paid (and charged) b times more.
 */
export class RevisingEnvironment<Task extends Info = Info> extends MultiTurnEnvironment<Task> {
  readonly #rewardFunction: RewardFunction;
  readonly #endsWhenRight: boolean;
  readonly #bonus: number;
  #grade = 0;

  constructor({ task, rewardFunction, maxTurns = 2, feedback = "verdict", improvementBonus = 0 }: ReviseOptions<Task>) {
    super(task, { maxTurns });
    this.#rewardFunction = rewardFunction;
    this.#endsWhenRight = feedback === "verdict";
    this.#bonus = improvementBonus;
  }

  override async getRewardAndNextObs(task: Task, action: unknown, options: StepOptions): Promise<Turn> {
    const { reward, isCorrect, metadata } = await grade(this.#rewardFunction, task, action, options);
    const change = reward - (this.currentTurn === 1 ? 0 : this.#grade);
    this.#grade = reward;
    return {
      reward: this.currentTurn === 1 ? change : change * (1 + this.#bonus),
      nextObservation: { feedback: REVIEW_REQUEST },
      terminated: this.#endsWhenRight && isCorrect,
      info: { ...metadata, grade: reward, success: isCorrect },
    };
  }
}

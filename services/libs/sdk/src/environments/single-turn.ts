// SPDX-License-Identifier: Apache-2.0
import type { StepOptions } from "../base-env.ts";
import { grade, type RewardFunction } from "./reward-function.ts";
import type { Info } from "../types.ts";
import { MultiTurnEnvironment, type Turn } from "./multi-turn.ts";

export interface SingleTurnOptions<Task extends Info = Info> {
  readonly task: Task;
  /** `zeroReward` where there is nothing to judge. */
  readonly rewardFunction: RewardFunction;
}

/** One question, one answer, one reward. */
export class SingleTurnEnvironment<Task extends Info = Info> extends MultiTurnEnvironment<Task> {
  readonly #rewardFunction: RewardFunction;

  constructor({ task, rewardFunction }: SingleTurnOptions<Task>) {
    super(task, { maxTurns: 1 });
    this.#rewardFunction = rewardFunction;
  }

  override async getRewardAndNextObs(task: Task, action: unknown, options: StepOptions): Promise<Turn> {
    const { reward, isCorrect, metadata } = await grade(this.#rewardFunction, task, action, options);
    return { reward, nextObservation: {}, terminated: true, info: { ...metadata, success: isCorrect } };
  }
}

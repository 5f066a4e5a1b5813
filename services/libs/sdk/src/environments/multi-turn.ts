// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import {
  type Awaitable,
  BaseEnv,
  type ResetOptions,
  type ResetResult,
  type StepOptions,
  type StepResult,
} from "../base-env.ts";
import type { Info } from "../types.ts";

/** What one turn came to. */
export interface Turn {
  readonly reward: number;
  readonly nextObservation: unknown;
  /** The episode's end, before the turns are used up. Default false. */
  readonly terminated?: boolean | undefined;
  /** Given with the step; `success` is the verdict. */
  readonly info?: Info | undefined;
}

export interface MultiTurnOptions {
  /** Default 3. */
  readonly maxTurns?: number | undefined;
}

/**
 * A task answered over several turns: say in `getRewardAndNextObs` what an answer is worth and what comes next. After
 * `maxTurns` the episode is over (truncated), with the observation `{}`. The instance has the task to itself: it is a copy,
 * so that no other episode of the task sees what is done to it.
 */
export abstract class MultiTurnEnvironment<Task extends Info = Info> extends BaseEnv {
  /** JSON values; the ground truth is in it. */
  readonly task: Task;
  readonly maxTurns: number;
  /** Actions so far. */
  readonly history: unknown[] = [];
  #over = true;

  constructor(task: Task, { maxTurns = 3 }: MultiTurnOptions = {}) {
    super();
    if (!(Number.isSafeInteger(maxTurns) && maxTurns >= 1)) {
      throw new WhetstoneError("INVALID_ARGUMENT", `maxTurns must be a whole number of at least 1, not ${maxTurns}`);
    }
    this.task = structuredClone(task);
    this.maxTurns = maxTurns;
  }

  /** @param action  the newest; `history` ends with it. */
  abstract getRewardAndNextObs(task: Task, action: unknown, options: StepOptions): Awaitable<Turn>;

  /** Turns taken. */
  get currentTurn(): number {
    return this.history.length;
  }

  /** What the agent sees first: the task's question where it has one, otherwise the task as it is. */
  firstObservation(task: Task): unknown {
    return questionOf(task);
  }

  reset(_options: ResetOptions): Awaitable<ResetResult> {
    this.history.length = 0;
    this.#over = false;
    return { observation: this.firstObservation(this.task), info: {} };
  }

  async step(action: unknown, options: StepOptions = {}): Promise<StepResult> {
    if (this.#over)
      throw new WhetstoneError("FAILED_PRECONDITION", "step needs a reset first, and none follows the end");
    this.history.push(action);
    const turn = await this.getRewardAndNextObs(this.task, action, options);
    const terminated = turn.terminated ?? false;
    const truncated = !terminated && this.currentTurn >= this.maxTurns;
    this.#over = terminated || truncated;
    const observation = this.#over ? {} : turn.nextObservation;
    return { observation, reward: turn.reward, terminated, truncated, info: turn.info ?? {} };
  }
}

/** A question alone keeps the ground truth out of the agent's sight. */
export function questionOf(task: Info): unknown {
  return typeof task["question"] === "string" ? { question: task["question"] } : task;
}

// SPDX-License-Identifier: Apache-2.0
import { passAtK } from "@whetstone/core";

import { type Estimate, meanOverTasks, shareOverTasks } from "./intervals.ts";

/** One task's episodes. */
export interface TaskScore {
  readonly id: string;
  /** Where the task comes from. */
  readonly source: string;
  /** Episodes that were scored. */
  readonly episodes: number;
  /** Of those, how many are correct. */
  readonly correct: number;
  /** Episodes that failed for reasons that are not the policy's: no reward was made up for them (I6). */
  readonly voided: number;
  /** Over the scored episodes. Null: there is none. */
  readonly meanReward: number | null;
}

/** Unbiased pass@k over the tasks with at least k scored episodes. */
export interface PassAtK extends Estimate {
  readonly k: number;
  readonly tasks: number;
}

export interface Score {
  /** Tasks with a scored episode. */
  readonly tasks: number;
  /** Tasks that were to be played. */
  readonly tasksInAll: number;
  /** Scored. */
  readonly episodes: number;
  readonly voided: number;
  /** Share of scored episodes that are correct. */
  readonly success: Estimate;
  readonly meanReward: Estimate;
  readonly passAtK: readonly PassAtK[];
}

/** Scores with 95 % intervals, of which docs/evaluation.md says how they are made. */
export function scoreTasks(tasks: readonly TaskScore[], ks: readonly number[]): Score {
  const scored = tasks.filter(({ episodes }) => episodes > 0);
  const rewards = scored.map(({ meanReward, episodes }) => ({ sum: (meanReward ?? 0) * episodes, draws: episodes }));
  return {
    tasks: scored.length,
    tasksInAll: tasks.length,
    episodes: scored.reduce((sum, { episodes }) => sum + episodes, 0),
    voided: tasks.reduce((sum, { voided }) => sum + voided, 0),
    success: shareOverTasks(scored.map(({ correct, episodes }) => ({ sum: correct, draws: episodes }))),
    meanReward: meanOverTasks(rewards),
    passAtK: ks.map((k) => passAtKOf(scored, k)),
  };
}

function passAtKOf(tasks: readonly TaskScore[], k: number): PassAtK {
  const enough = tasks.filter(({ episodes }) => episodes >= k);
  const parts = enough.map(({ episodes, correct }) => ({ sum: passAtK({ attempts: episodes, correct }, k), draws: 1 }));
  // Of n episodes there are n/k groups of k without an episode in common.
  const most = enough.reduce((sum, { episodes }) => sum + episodes / k, 0);
  return { k, tasks: enough.length, ...shareOverTasks(parts, most) };
}

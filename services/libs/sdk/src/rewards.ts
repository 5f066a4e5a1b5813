// SPDX-License-Identifier: Apache-2.0
import { A_REWARD, isReward, jsonFault, shown } from "./environment-values.ts";
import { EpisodeError } from "./failure.ts";
import type { Step, Trajectory } from "./types.ts";

/** Agents and workflows may write to their steps. @throws EpisodeError TASK: the same code does the same again. */
export function checkSteps(steps: readonly Step[], who: string): void {
  for (const [i, { reward, info }] of steps.entries()) {
    const fault = isReward(reward) ? jsonFault(info, "info") : `reward ${shown(reward)}`;
    if (fault === undefined) continue;
    const rule = isReward(reward) ? "it must be a JSON value" : `it must be ${A_REWARD}`;
    throw new EpisodeError("TASK", `${who} gave step ${i + 1} ${fault}: ${rule}`);
  }
}

/** Sum of the step rewards, written to `trajectory.reward`. */
export function computeTrajectoryReward(trajectory: Trajectory): number {
  trajectory.reward = trajectory.steps.reduce((sum, step) => sum + step.reward, 0);
  return trajectory.reward;
}

/** Monte-Carlo returns, backward: G = r + gamma × G, written to `mcReturn`. @param gamma  in [0, 1]. */
export function computeMcReturns(steps: readonly Step[], gamma: number): void {
  let future = 0;
  for (let i = steps.length - 1; i >= 0; i -= 1) {
    const step = steps[i] as Step;
    future = step.reward + gamma * future;
    step.mcReturn = future;
  }
}

// SPDX-License-Identifier: Apache-2.0
import type { Step, Trajectory } from "./types.ts";

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

// SPDX-License-Identifier: Apache-2.0
import type { Step } from "../types.ts";

export interface StepRewardOptions {
  /** Above 0: each reward becomes the discounted sum of the rewards from its step on. */
  readonly gamma: number;
  /** What a step gets for being better than the one before it, per unit of reward. */
  readonly rewardBonusCoeff: number;
}

/**
 * rLLM's shaping, for trajectories of more than one step: first s[i] += coeff × (raw[i] − raw[i−1]) for i ≥ 1, then, with
 * gamma > 0, s[i] = s[i] + gamma × s[i+1] from the end on.
 */
export function adjustStepRewards(steps: readonly Step[], { gamma, rewardBonusCoeff }: StepRewardOptions): void {
  if (steps.length < 2) return;
  const raw = steps.map(({ reward }) => reward);
  if (rewardBonusCoeff !== 0) {
    steps.forEach((step, i) => {
      if (i > 0) step.reward += rewardBonusCoeff * ((raw[i] as number) - (raw[i - 1] as number));
    });
  }
  if (gamma <= 0) return;
  let future = 0;
  for (const step of steps.toReversed()) future = step.reward += gamma * future;
}

// SPDX-License-Identifier: Apache-2.0
import type { ModelCall } from "@whetstone/proto/types/v1/types";
import {
  computeMcReturns,
  createStep,
  createTrajectory,
  type Episode,
  type Step,
  type Trajectory,
} from "@whetstone/sdk";

/**
 * A rollout that called the model by itself: its calls become steps, one trajectory a role, unless it named them itself.
 * A role that reported trajectories has their reward, every other one the episode's: the team's reward is each role's.
 */
export function stepsFromCalls(played: Episode, calls: readonly ModelCall[], gamma = 1): Episode {
  if (calls.length === 0 || namesItsCalls(played, calls)) return played;
  const byRole = [...Map.groupBy(calls, ({ role }) => role)];
  const trajectories = byRole.map(([role, own], index) => trajectoryOf(role, own, index));
  for (const trajectory of trajectories) reward(trajectory, rewardOf(played, trajectory.name), gamma);
  return { ...played, trajectories };
}

function namesItsCalls({ trajectories }: Episode, calls: readonly ModelCall[]): boolean {
  const ids = new Set(calls.map(({ id }) => id));
  const steps = trajectories.flatMap((trajectory) => trajectory.steps);
  return steps.length > 0 && steps.every(({ callId }) => ids.has(callId));
}

function trajectoryOf(role: string, calls: readonly ModelCall[], index: number): Trajectory {
  return createTrajectory({ uid: `t${index}`, name: role, steps: calls.map(stepOf) });
}

function stepOf({ id, text }: ModelCall): Step {
  return createStep({ callId: id, modelResponse: text, action: text });
}

function rewardOf({ trajectories, reward }: Episode, role: string): number {
  const own = trajectories.filter(({ name }) => name === role);
  return own.length === 0 ? reward : own.reduce((sum, trajectory) => sum + trajectory.reward, 0);
}

function reward(trajectory: Trajectory, value: number, gamma: number): void {
  const last = trajectory.steps.at(-1) as Step;
  last.reward = value;
  last.done = true;
  trajectory.reward = value;
  computeMcReturns(trajectory.steps, gamma);
}

// SPDX-License-Identifier: Apache-2.0
import { type Episode, imageFault, isReward, jsonFault, type Step } from "@whetstone/sdk";

/**
 * The last look before an episode is stored for ever: engines check every value where it comes in, and whatever passed them
 * all the same must not reach a trainer. An episode with such a value has failed (I6); its calls stay, for people to read.
 */
export function sealable(played: Episode): Episode {
  const fault = faultOf(played);
  if (fault === undefined) return played;
  const message = `the episode cannot be sealed: ${fault} is no finite number, no JSON value, or no picture`;
  const failure =
    played.failure.class === "NONE"
      ? ({ class: "GRADER", phase: "publish", message, code: "GRADER_FAILED" } as const)
      : played.failure;
  return {
    ...played,
    trajectories: [],
    reward: 0,
    isCorrect: false,
    metrics: {},
    failure,
    terminationReason: failure.class === "DEADLINE" ? "DEADLINE" : "ERROR",
  };
}

function faultOf({ trajectories, reward, metrics }: Episode): string | undefined {
  if (!isReward(reward)) return `reward ${String(reward)}`;
  for (const [name, value] of Object.entries(metrics)) if (!isReward(value)) return `metrics.${name} ${String(value)}`;
  for (const [i, trajectory] of trajectories.entries()) {
    if (!isReward(trajectory.reward)) return `trajectories[${i}].reward ${String(trajectory.reward)}`;
    for (const [j, step] of trajectory.steps.entries()) {
      const path = `trajectories[${i}].steps[${j}]`;
      if (!isReward(step.reward)) return `${path}.reward ${String(step.reward)}`;
      if (!isReward(step.mcReturn)) return `${path}.mcReturn ${String(step.mcReturn)}`;
      const fault = jsonFault(step.info, `${path}.info`) ?? imagesFault(step, path);
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}

/** Agents are others' code, and a step is theirs to write. */
function imagesFault({ images = [] }: Step, path: string): string | undefined {
  const faults = images.map(imageFault);
  const at = faults.findIndex((fault) => fault !== undefined);
  return at < 0 ? undefined : `${path}.images[${at}]`;
}

// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Awaitable, StepOptions } from "../base-env.ts";
import { A_REWARD, isReward, shown } from "../environment-values.ts";
import { EpisodeError } from "../failure.ts";
import type { Info } from "../types.ts";

export interface RewardOutput {
  readonly reward: number;
  readonly isCorrect: boolean;
  /** Why: what was read, what was wanted. JSON values; recorded with the step. */
  readonly metadata: Info;
}

/**
 * Judges an answer. The same task and action give the same output.
 * @param task    the task's own fields; a ground truth that is missing is a broken task (throw `EpisodeError("TASK", …)`),
 *                never reward 0.
 * @param action  the answer's text; "" where there was none.
 */
export type RewardFunction = (task: Info, action: string, options?: StepOptions) => Awaitable<RewardOutput>;

/** Says nothing: for environments that only give observations. */
export const zeroReward: RewardFunction = () => ({ reward: 0, isCorrect: false, metadata: {} });

/** Calls a reward function; whatever it throws without naming a class is a GRADER failure (I6). */
export async function grade(
  rewardFunction: RewardFunction,
  task: Info,
  action: unknown,
  options: StepOptions = {},
): Promise<RewardOutput> {
  return readOutput(await called(rewardFunction, task, textOf(action), options), rewardFunction);
}

/** @throws EpisodeError GRADER naming what the function returned. */
function readOutput(returned: unknown, culprit: RewardFunction, name = "the reward function"): RewardOutput {
  const wrong = (what: string, rule: string): EpisodeError =>
    new EpisodeError("GRADER", `${name} returned ${what}: it must be ${rule}`, { culprit });
  if (typeof returned !== "object" || returned === null)
    throw wrong(shown(returned), "{ reward, isCorrect, metadata }");
  const { reward, isCorrect, metadata = {} } = returned as Partial<RewardOutput>;
  if (!isReward(reward)) throw wrong(`reward ${shown(reward)}`, A_REWARD);
  if (typeof isCorrect !== "boolean") throw wrong(`isCorrect ${shown(isCorrect)}`, "true or false");
  return { reward, isCorrect, metadata };
}

async function called(
  rewardFunction: RewardFunction,
  task: Info,
  action: string,
  options: StepOptions,
): Promise<RewardOutput> {
  try {
    return await rewardFunction(task, action, options);
  } catch (error) {
    if (error instanceof EpisodeError || options.signal?.aborted) throw error;
    const message = `the reward could not be computed: ${WhetstoneError.from(error).message}`;
    throw new EpisodeError("GRADER", message, { cause: error });
  }
}

function textOf(action: unknown): string {
  if (typeof action === "string") return action;
  return action === undefined || action === null ? "" : JSON.stringify(action);
}

export interface WeightedReward {
  /** Names the part in the metadata. */
  readonly name: string;
  readonly weight: number;
  readonly rewardFunction: RewardFunction;
}

/** Weighted sum; the verdict is the first part's. Metadata: each part's reward and metadata under its name. */
export function combineRewards(parts: readonly [WeightedReward, ...WeightedReward[]]): RewardFunction {
  return async (task, action, options) => {
    const outputs = await Promise.all(
      parts.map(async ({ name, rewardFunction }) =>
        readOutput(await rewardFunction(task, action, options), rewardFunction, `the reward function "${name}"`),
      ),
    );
    const reward = outputs.reduce((sum, output, i) => sum + output.reward * (parts[i] as WeightedReward).weight, 0);
    const metadata = Object.fromEntries(
      outputs.map((output, i) => [(parts[i] as WeightedReward).name, { ...output.metadata, reward: output.reward }]),
    );
    return { reward, isCorrect: outputs[0]?.isCorrect ?? false, metadata };
  };
}

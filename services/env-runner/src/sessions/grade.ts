// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import {
  type Awaitable,
  type Environment,
  EpisodeError,
  gradeEnvironment,
  isDone,
  stepEnvironment,
  type StepOptions,
  type StepResult,
} from "@whetstone/sdk";

/** Environments that grade at the end do so here, where they live: the last step's reward is the grade. */
export function stepAndGrade(environment: Environment, action: unknown, options: StepOptions): Awaitable<StepResult> {
  const result = stepEnvironment(environment, action, options);
  if (result instanceof Promise) return result.then((stepped) => graded(environment, stepped, options));
  return graded(environment, result, options);
}

function graded(environment: Environment, result: StepResult, options: StepOptions): Awaitable<StepResult> {
  if (!isDone(result) || environment.computeFinalReward === undefined) return result;
  return graderFailed(async () => gradeEnvironment(environment, options)).then((reward) => ({ ...result, reward }));
}

/** Whatever a grader throws is a GRADER failure. */
async function graderFailed<T>(grade: () => Promise<T>): Promise<T> {
  try {
    return await grade();
  } catch (error) {
    if (error instanceof EpisodeError && error.failureClass === "GRADER") throw error;
    const message = `the reward could not be computed: ${WhetstoneError.from(error).message}`;
    throw new EpisodeError("GRADER", message, { cause: error });
  }
}

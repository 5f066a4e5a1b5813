// SPDX-License-Identifier: Apache-2.0
import { A_REWARD, isReward, shown } from "../environment-values.ts";
import { EpisodeError } from "../failure.ts";
import { createStep, createTrajectory, type Step, type Trajectory } from "../types.ts";
import type { RolloutReport } from "./rollout.ts";

/** @throws EpisodeError TASK naming the field: a report may come from a file or from another machine. */
export function readReport(result: unknown): RolloutReport {
  if (typeof result === "number") return { reward: numberAt("reward", result) };
  const { reward, isCorrect, metrics = {}, output, trajectories = [] } = objectAt("", result);
  if (isCorrect !== undefined && typeof isCorrect !== "boolean") throw broken("isCorrect", "true or false");
  const numbers = Object.entries(objectAt("metrics", metrics));
  return {
    reward: reward === undefined ? undefined : numberAt("reward", reward),
    isCorrect,
    metrics: Object.fromEntries(numbers.map(([name, value]) => [name, numberAt(`metrics.${name}`, value)])),
    output,
    trajectories: listAt("trajectories", trajectories).map(trajectoryAt),
  };
}

/** A reward other than 0 is the sum of its steps' rewards; 0 is also what one has that leaves it to its steps. */
function trajectoryAt(value: unknown, index: number): Trajectory {
  const path = `trajectories[${index}]`;
  const { name = "agent", steps = [], reward = 0, info = {} } = objectAt(path, value);
  if (typeof name !== "string") throw broken(`${path}.name`, "a role");
  const made = listAt(`${path}.steps`, steps).map((step, i) => stepAt(`${path}.steps[${i}]`, step));
  if (numberAt(`${path}.reward`, reward) !== 0) {
    if (made.length === 0) made.push(createStep({ done: true }));
    giveRestToLast(made, reward as number);
  }
  return createTrajectory({ name, steps: made, info: objectAt(`${path}.info`, info) });
}

/** What `reward` says beyond the step rewards goes to the last step, so that the returns add up to it. */
export function giveRestToLast(steps: readonly Step[], reward: number): void {
  const last = steps.at(-1);
  if (last) last.reward = reward - steps.slice(0, -1).reduce((sum, step) => sum + step.reward, 0);
}

function stepAt(path: string, value: unknown): Step {
  const fields = objectAt(path, value) as Partial<Step>;
  const step = createStep(fields);
  numberAt(`${path}.reward`, step.reward);
  if (typeof step.callId !== "string") throw broken(`${path}.callId`, "the name of a call");
  return step;
}

function objectAt(path: string, value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  throw broken(path, path === "" ? "a number, or an object with a reward or an output" : "an object");
}

function listAt(path: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw broken(path, "a list");
}

function numberAt(path: string, value: unknown): number {
  if (isReward(value)) return value;
  throw broken(path, `${A_REWARD}, not ${shown(value)}`);
}

function broken(path: string, rule: string): EpisodeError {
  return new EpisodeError("TASK", `the rollout's result is wrong: ${path === "" ? "it" : path} must be ${rule}`);
}

// SPDX-License-Identifier: Apache-2.0
import { inTurns } from "@whetstone/core";
import { withDefaults } from "@whetstone/contract/defaults";
import { type Validation, ValidationSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { TaskList } from "../../datasets/dataset.ts";
import type { Findings, Violation } from "./violation.ts";

/** The controller has a list of a validation's episodes in memory. */
const MAX_VALIDATION_EPISODES = 2_000_000;

/** Where the number of tasks is known without reading a file. */
export function checkSeedsPlayed(found: Findings, validation: Validation): void {
  const { dataset } = withDefaults(ValidationSchema, validation);
  if (dataset?.source.case !== "seeds") return;
  const { take, repeat, source } = dataset;
  const { count } = source.value;
  checkValidationSize(found, validation, Number(take !== undefined && take < count ? take : count) * repeat);
}

/** @param tasks  after take and repeat; of a file they are known once it is read */
export function checkValidationSize(found: Findings, validation: Validation, tasks: number): void {
  const { variants } = withDefaults(ValidationSchema, validation);
  const attempts = variants.length === 0 ? 1 : variants.reduce((sum, variant) => sum + variant.attempts, 0);
  const episodes = tasks * attempts;
  const reason = `has ${episodes} episodes (tasks × attempts), at most ${MAX_VALIDATION_EPISODES} can be played; use "take"`;
  found.check("validation.dataset", episodes <= MAX_VALIDATION_EPISODES, reason);
}

/** SFT has nothing to train in a task whose demonstration no assistant speaks in. */
export async function checkDemonstrations(tasks: TaskList): Promise<Violation[]> {
  for await (const i of inTurns(Array(tasks.length).keys())) {
    const { demonstration } = await tasks.at(i);
    if (demonstration.some(({ role }) => role === "assistant")) continue;
    const reason = `task ${i + 1} has no assistant message in its demonstration, which SFT needs`;
    return [{ path: "train", reason, curable: true }];
  }
  return [];
}

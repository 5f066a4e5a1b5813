// SPDX-License-Identifier: Apache-2.0
import { withDefaults } from "@whetstone/contract/defaults";
import { type Validation, ValidationSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Findings } from "./violation.ts";

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

/** A step's rows are in the trainer's memory, and so are those that it evaluates. */
const MAX_HELD_OUT = 32_768;

/** @param tasks  of a validation that the trainer evaluates, which are `episodes` to it */
export function checkHeldOutSize(found: Findings, episodes: number): void {
  const reason = `has ${episodes} demonstrations, at most ${MAX_HELD_OUT} can be evaluated; use "take"`;
  found.check("validation.dataset", episodes <= MAX_HELD_OUT, reason);
}

// SPDX-License-Identifier: Apache-2.0
import { inTurns } from "@whetstone/core";
import type { Dataset, SeedRange, Validation } from "@whetstone/proto/jobs/v1/jobs";
import type { TaskList } from "../../datasets/dataset.ts";
import type { Findings, Violation } from "./violation.ts";
import { checkSampling } from "./validate-sampling.ts";

const VARIANT = /^[a-z][a-z0-9]{0,30}$/;
const MAX_VARIANTS = 16;
/** The controller has a list of a validation's episodes in memory. */
const MAX_VALIDATION_EPISODES = 2_000_000;
/** A shuffle has the order of a whole pass in memory. */
const MAX_SHUFFLED = 5_000_000;

export function checkDataset(found: Findings, path: string, dataset: Dataset): void {
  const source = dataset.source;
  found.check(path, source.case !== undefined, "needs a source: one of jsonl, seeds");
  if (source.case === "seeds") checkSeeds(found, `${path}.seeds`, dataset, source.value);
  if (source.case === "jsonl") found.check(`${path}.jsonl`, source.value !== "", "must name a file");
  if (dataset.take !== undefined) found.check(`${path}.take`, dataset.take >= 1n, "must be at least 1");
  found.range(`${path}.repeat`, dataset.repeat, 1, 1_000_000);
}

function checkSeeds(found: Findings, path: string, dataset: Dataset, { first, count }: SeedRange): void {
  found.check(`${path}.count`, count >= 1n, "must be at least 1");
  found.exact(`${path}.first`, first);
  if (found.has(`${path}.first`)) return;
  found.exact(`${path}.count`, first + count);
  const taken = takenOf(dataset, count);
  const isShort = dataset.shuffleSeed === undefined || taken <= MAX_SHUFFLED;
  found.check(`${path}.count`, isShort, `must be at most ${MAX_SHUFFLED} to be shuffled, is ${taken}; use "take"`);
}

function takenOf({ take }: Dataset, count: bigint): number {
  return Number(take !== undefined && take < count ? take : count);
}

export function checkValidation(found: Findings, validation: Validation): void {
  found.check("validation.dataset", validation.dataset !== undefined, "is required");
  if (validation.dataset) checkDataset(found, "validation.dataset", validation.dataset);
  found.range("validation.concurrency", validation.concurrency, 1, 1_000_000);
  found.range("validation.everySteps", validation.everySteps, 0, 1_000_000);
  found.check("validation.variants", validation.variants.length <= MAX_VARIANTS, `must be at most ${MAX_VARIANTS}`);
  const names = new Set<string>();
  validation.variants.forEach((variant, i) => {
    const path = `validation.variants[${i}]`;
    found.check(`${path}.name`, VARIANT.test(variant.name), "must be a lower-case word");
    found.check(`${path}.name`, !names.has(variant.name), `"${variant.name}" is taken by another variant`);
    names.add(variant.name);
    found.range(`${path}.attempts`, variant.attempts, 1, 10_000);
    checkSampling(found, `${path}.sampling`, variant.sampling);
  });
  if (validation.dataset?.source.case !== "seeds") return;
  const { repeat = 1, source } = validation.dataset;
  checkValidationSize(found, validation, takenOf(validation.dataset, source.value.count) * repeat);
}

/** @param tasks  after take and repeat; of a file they are known once it is read */
export function checkValidationSize(found: Findings, { variants }: Validation, tasks: number): void {
  const attempts = variants.length === 0 ? 1 : variants.reduce((sum, variant) => sum + (variant.attempts ?? 1), 0);
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

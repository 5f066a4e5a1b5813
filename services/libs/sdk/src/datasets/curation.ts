// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { z } from "zod";

import type { DatasetTask } from "./task.ts";

/** What curation needs of an evaluation's report (`whet eval --report`). */
export interface EvaluatedTasks {
  readonly tasks: readonly {
    readonly id: string;
    /** Episodes that were scored. */
    readonly episodes: number;
    readonly correct: number;
  }[];
}

const report = z.object({
  tasks: z.array(z.object({ id: z.string(), episodes: z.int().min(0), correct: z.int().min(0) })),
});

/**
 * Keeps the tasks that were solved in a share of their scored episodes from `low` to `high`, both included:
 * `dataset.filter(passRateBetween(report, 0.1, 0.9))`. Tasks without a scored episode are left out.
 * @throws ConfigError when the report is none, or not 0 ≤ low ≤ high ≤ 1.
 */
export function passRateBetween(
  evaluation: EvaluatedTasks,
  low: number,
  high: number,
): (task: Pick<DatasetTask, "id">) => boolean {
  if (!(low >= 0 && low <= high && high <= 1))
    throw new ConfigError([{ path: "low, high", reason: `must be 0 ≤ low ≤ high ≤ 1, not ${low} and ${high}` }]);
  const parsed = report.safeParse(evaluation);
  if (!parsed.success)
    throw new ConfigError([{ path: "report", reason: "has no tasks with id, episodes and correct" }], {
      cause: parsed.error,
    });
  const rates = new Map(parsed.data.tasks.map(({ id, episodes, correct }) => [id, correct / episodes]));
  return ({ id }) => {
    const rate = rates.get(id) ?? NaN;
    return rate >= low && rate <= high;
  };
}

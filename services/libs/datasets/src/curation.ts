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
 * `dataset.filter(passRateBetween(report, 0.1, 0.9))`. The episodes of several reports count together. Tasks without a scored
 * episode are left out.
 * @throws ConfigError when a report is none, or not 0 ≤ low ≤ high ≤ 1.
 */
export function passRateBetween(
  evaluations: EvaluatedTasks | readonly EvaluatedTasks[],
  low: number,
  high: number,
): (task: Pick<DatasetTask, "id">) => boolean {
  if (!(low >= 0 && low <= high && high <= 1))
    throw new ConfigError([{ path: "low, high", reason: `must be 0 ≤ low ≤ high ≤ 1, not ${low} and ${high}` }]);
  const counts = new Map<string, { episodes: number; correct: number }>();
  for (const { id, episodes, correct } of [evaluations].flat().flatMap(tasksOf)) {
    const before = counts.get(id) ?? { episodes: 0, correct: 0 };
    counts.set(id, { episodes: before.episodes + episodes, correct: before.correct + correct });
  }
  return ({ id }) => {
    const { episodes, correct } = counts.get(id) ?? { episodes: 0, correct: 0 };
    const rate = correct / episodes;
    return rate >= low && rate <= high;
  };
}

function tasksOf(evaluation: EvaluatedTasks): EvaluatedTasks["tasks"] {
  const parsed = report.safeParse(evaluation);
  if (parsed.success) return parsed.data.tasks;
  throw new ConfigError([{ path: "report", reason: "has no tasks with id, episodes and correct" }], {
    cause: parsed.error,
  });
}

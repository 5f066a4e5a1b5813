// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { z } from "zod";

import { type Score, scoreTasks, type TaskScore } from "./score.ts";

/** One episode of an evaluation. */
export interface EvaluatedEpisode {
  /** "<job>/<group>/s<sample>". */
  readonly id: string;
  readonly taskId: string;
  readonly source: string;
  /** False: it failed for a reason that is not the policy's, and has no reward. */
  readonly isScored: boolean;
  readonly isCorrect: boolean;
  readonly reward: number;
  /** "ENV_DONE", "MAX_TURNS", … */
  readonly endedBy: string;
  /** "NONE", "POLICY", "ENVIRONMENT", … */
  readonly failureClass: string;
  /** Empty: nothing failed. */
  readonly failurePhase: string;
  readonly failureMessage: string;
  /** Environment steps. */
  readonly steps: number;
  /** Tokens sampled. */
  readonly tokens: number;
  readonly seconds: number;
}

export interface EvaluatedTask extends TaskScore {
  readonly attempts: readonly Omit<EvaluatedEpisode, "taskId" | "source">[];
}

/** Episodes that failed in one way. */
export interface FailureCount {
  readonly failureClass: string;
  readonly phase: string;
  readonly episodes: number;
  readonly isScored: boolean;
  /** Of one of them. */
  readonly example: string;
}

/** What was evaluated. */
export interface EvaluationHead {
  readonly name: string;
  /** The model folder. */
  readonly model: string;
  readonly agent: string;
  /** Empty: none. */
  readonly environment: string;
  /** In words: a dataset's name, a file, seeds. */
  readonly dataset: string;
  /** Episodes a task. */
  readonly attempts: number;
  readonly seed: number;
  readonly sampling: Readonly<Record<string, number>>;
  /** ISO 8601. */
  readonly finishedAt: string;
  readonly seconds: number;
}

/** What `whet eval` finds out. */
export interface EvaluationReport extends EvaluationHead {
  readonly format: "whetstone.evaluation/v1";
  readonly ks: readonly number[];
  readonly total: Score;
  /** By name. */
  readonly sources: readonly (Score & { readonly source: string })[];
  /** Most frequent first. */
  readonly failures: readonly FailureCount[];
  readonly endings: Readonly<Record<string, number>>;
  /** In the order of the dataset. */
  readonly tasks: readonly EvaluatedTask[];
}

/** @param episodes  in the order of the dataset; those of a task may come from several repeats of it */
export function evaluationReport(
  head: EvaluationHead,
  ks: readonly number[],
  episodes: readonly EvaluatedEpisode[],
): EvaluationReport {
  const tasks = [...Map.groupBy(episodes, ({ taskId }) => taskId).values()].map(taskOf);
  const bySource = [...Map.groupBy(tasks, ({ source }) => source)].sort(([a], [b]) => a.localeCompare(b));
  return {
    format: "whetstone.evaluation/v1",
    ...head,
    ks,
    total: scoreTasks(tasks, ks),
    sources: bySource.map(([source, own]) => ({ source, ...scoreTasks(own, ks) })),
    failures: failuresOf(episodes),
    endings: countBy(episodes, ({ endedBy }) => endedBy),
    tasks,
  };
}

function taskOf(episodes: readonly EvaluatedEpisode[]): EvaluatedTask {
  const scored = episodes.filter(({ isScored }) => isScored);
  const [first] = episodes;
  return {
    id: first?.taskId ?? "",
    source: first?.source ?? "",
    episodes: scored.length,
    correct: scored.filter(({ isCorrect }) => isCorrect).length,
    voided: episodes.length - scored.length,
    meanReward: scored.length === 0 ? null : scored.reduce((sum, { reward }) => sum + reward, 0) / scored.length,
    attempts: episodes.map(({ taskId: _task, source: _source, ...attempt }) => attempt),
  };
}

function failuresOf(episodes: readonly EvaluatedEpisode[]): FailureCount[] {
  const failed = episodes.filter(({ failureClass }) => failureClass !== "NONE");
  const alike = Map.groupBy(failed, ({ failureClass, failurePhase }) => `${failureClass} ${failurePhase}`);
  return [...alike.values()].map(countOf).sort((a, b) => b.episodes - a.episodes);
}

function countOf(episodes: readonly EvaluatedEpisode[]): FailureCount {
  const { failureClass, failurePhase, failureMessage, isScored } = episodes[0] as EvaluatedEpisode;
  return { failureClass, phase: failurePhase, episodes: episodes.length, isScored, example: failureMessage };
}

function countBy<T>(items: readonly T[], nameOf: (item: T) => string): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(items, nameOf)].map(([name, found]) => [name, found.length]));
}

const shape = z.looseObject({
  format: z.literal("whetstone.evaluation/v1"),
  name: z.string(),
  tasks: z.array(
    z.looseObject({
      id: z.string(),
      source: z.string(),
      episodes: z.int().min(0),
      correct: z.int().min(0),
      voided: z.int().min(0),
      meanReward: z.number().nullable(),
    }),
  ),
});

/** @param path  names the report in the error. @throws ConfigError when it is none. */
export function readReport(json: unknown, path: string): EvaluationReport {
  const parsed = shape.safeParse(json);
  if (parsed.success) return json as EvaluationReport;
  const [issue] = parsed.error.issues;
  const reason = `is no report of \`whet eval\`: ${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`;
  throw new ConfigError([{ path, reason }], { cause: parsed.error });
}

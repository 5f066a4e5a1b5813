// SPDX-License-Identifier: Apache-2.0
import type { Awaitable } from "../base-env.ts";
import type { Info, Task, Trajectory } from "../types.ts";

/** What a rollout gets: a task, and an OpenAI-compatible server that records what it answers. */
export interface RolloutInput<Args = Info> {
  readonly task: Task;
  /** Its own arguments, checked by `parseArgs`. */
  readonly args: Args;
  /** As OpenAI clients take it, "/v1" included. Calls under it, with `apiKey`, belong to this episode. */
  readonly baseUrl: string;
  /** The same for a program on another machine. Absent: `baseUrl`. */
  readonly publicBaseUrl?: string | undefined;
  /** Any text where the server asks for none. */
  readonly apiKey: string;
  /** The model's name there. */
  readonly model: string;
  readonly episodeId: string;
  /** From 1: how often the episode was begun. */
  readonly try: number;
  readonly seed: number;
  /** Aborted at the deadline and by a cancel. */
  readonly signal: AbortSignal;
  /** Unix time in milliseconds. */
  readonly deadline: number;
}

/** What a rollout says about itself. Trajectories that it leaves out are taken from the calls it made. */
export interface RolloutReport {
  /** Absent: the job's environment scores `output`. */
  readonly reward?: number | undefined;
  /** Absent: the environment's verdict, else reward > 0. */
  readonly isCorrect?: boolean | undefined;
  /** Free numbers. */
  readonly metrics?: Readonly<Record<string, number>> | undefined;
  /** The final answer: what the job's environment takes as its one action. */
  readonly output?: unknown;
  readonly trajectories?: readonly Trajectory[] | undefined;
}

/** A number is the reward; an `Episode` is a report, too. */
export type RolloutResult = number | RolloutReport;

/** An agent that calls the model itself. */
export type RolloutFunction<Args = Info> = (input: RolloutInput<Args>) => Awaitable<RolloutResult>;

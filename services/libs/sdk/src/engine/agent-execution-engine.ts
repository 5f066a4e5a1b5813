// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { computeMcReturns, computeTrajectoryReward } from "../rewards.ts";
import type { Episode, Task } from "../types.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { type BatchOptions, inOrderOfCompletion } from "./batch.ts";
import { isMasked } from "./ending.ts";
import {
  type AgentExecutionEngineOptions,
  type EngineSettings,
  type EpisodeRequest,
  resolveOptions,
} from "./options.ts";
import {
  type ResultMode,
  type ResultOfMode,
  toConversationResult,
  toStepsResult,
  toTextResult,
  toTokenResult,
} from "./results.ts";
import { playTries, type Tries } from "./tries.ts";

export interface RunOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface ModeOptions<M extends ResultMode> extends BatchOptions {
  /** Default "Episode". "Token" needs a server that gives token ids. */
  readonly mode?: M | undefined;
}

/** Plays agents against environments. A failure is part of the result: nothing here throws because an episode failed. */
export class AgentExecutionEngine {
  readonly #settings: EngineSettings;

  constructor(options: AgentExecutionEngineOptions) {
    this.#settings = resolveOptions(options);
  }

  /** Plays until a try ends for good: by its result, by a failure that a retry cannot mend, or by the retry limit. */
  runEpisode(request: EpisodeRequest, options: RunOptions = {}): Promise<Episode> {
    return playEpisode(this.#settings, request, options);
  }

  /**
   * All tasks, at most `nParallelAgents` at once; results in the order of the tasks, whatever became of them.
   * @throws UNSUPPORTED_SETTING in mode Token, at the first answer without ids: all others would be like it.
   */
  async executeTasks<M extends ResultMode = "Episode">(
    tasks: readonly Task[],
    options: ModeOptions<M> = {},
  ): Promise<ResultOfMode[M][]> {
    const results: ResultOfMode[M][] = [];
    for await (const [index, result] of this.#results(tasks, options)) results[index] = result;
    return results;
  }

  /** Results in the order in which the episodes end. Leaving the loop early cancels the rest. @throws as `executeTasks`. */
  async *trajectoryGenerator<M extends ResultMode = "Episode">(
    tasks: readonly Task[],
    options: ModeOptions<M> = {},
  ): AsyncGenerator<ResultOfMode[M]> {
    for await (const [, result] of this.#results(tasks, options)) yield result;
  }

  async *#results<M extends ResultMode>(
    tasks: readonly Task[],
    options: ModeOptions<M>,
  ): AsyncGenerator<[index: number, result: ResultOfMode[M]]> {
    const mode: ResultMode = options.mode ?? "Episode";
    const settings = mode === "Token" ? { ...this.#settings, returnTokenIds: true } : this.#settings;
    const play = (request: EpisodeRequest, run: RunOptions): Promise<Episode> => playEpisode(settings, request, run);
    for await (const { index, episode } of inOrderOfCompletion(tasks, settings.nParallelAgents, play, options)) {
      yield [index, resultOf(mode, episode, index, settings) as ResultOfMode[M]];
    }
  }
}

function resultOf(mode: ResultMode, episode: Episode, idx: number, settings: EngineSettings): ResultOfMode[ResultMode] {
  const { deadlinePolicy, enforceMaxPromptLength, maxResponseLength } = settings;
  const options = { idx, deadlinePolicy };
  switch (mode) {
    case "Episode":
      return episode;
    case "Text":
      return toTextResult(episode, options);
    case "Step":
      return toStepsResult(episode, options);
    case "Conversation":
      return toConversationResult(episode, options);
    case "Token":
      refuseWithoutIds(episode);
      return toTokenResult(episode, enforceMaxPromptLength ? options : { ...options, maxResponseLength });
  }
}

function refuseWithoutIds({ failure: { code, phase, message } }: Episode): void {
  if (code === "UNSUPPORTED_SETTING" && phase === "model") throw new WhetstoneError(code, message);
}

async function playEpisode(
  settings: EngineSettings,
  request: EpisodeRequest,
  { signal }: RunOptions,
): Promise<Episode> {
  const tries = await playTries(settings, request, signal, (run) => attempt(settings, run));
  return episodeOf(settings, request, tries);
}

function episodeOf(
  settings: EngineSettings,
  request: EpisodeRequest,
  { result, ledger, tries }: Tries<Outcome>,
): Episode {
  const { terminationReason, failure, trajectory, finalObservation } = result;
  if (trajectory) computeMcReturns(trajectory.steps, settings.gamma);
  const reward = trajectory ? computeTrajectoryReward(trajectory) : 0;
  const verdict = trajectory?.steps.at(-1)?.info["success"];
  const { startedAtMs, startedAt, modelMs, environmentMs, waitingMs } = ledger;
  return {
    id: request.id,
    task: request.task,
    seed: request.seed,
    terminationReason,
    failure,
    trajectories: trajectory ? [trajectory] : [],
    reward,
    isCorrect: typeof verdict === "boolean" ? verdict : reward > 0,
    metrics: {},
    masked: isMasked(terminationReason, settings),
    finalObservation,
    tries,
    startedAtMs,
    timing: { totalMs: settings.clock.monotonicMs() - startedAt, modelMs, environmentMs, waitingMs },
  };
}

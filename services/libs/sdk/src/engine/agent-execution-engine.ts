// SPDX-License-Identifier: Apache-2.0
import { computeMcReturns, computeTrajectoryReward } from "../rewards.ts";
import type { Episode, Task } from "../types.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { type BatchOptions, inOrderOfCompletion, inOrderOfTasks, type PlayEpisode } from "./batch.ts";
import { isMasked } from "./ending.ts";
import {
  type AgentExecutionEngineOptions,
  type EngineSettings,
  type EpisodeRequest,
  resolveOptions,
} from "./options.ts";
import { playTries, type Tries } from "./tries.ts";
import { turns } from "./turns.ts";

export interface RunOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Plays agents against environments. A failure is part of the result: nothing here throws because an episode failed. */
export class AgentExecutionEngine {
  readonly #settings: EngineSettings;

  constructor(options: AgentExecutionEngineOptions) {
    this.#settings = resolveOptions(options);
  }

  /** Plays until a try ends for good: by its result, by a failure that a retry cannot mend, or by the retry limit. */
  async runEpisode(request: EpisodeRequest, options: RunOptions = {}): Promise<Episode> {
    const settings = this.#settings;
    const turn = turns.start();
    if (turn !== undefined) await turn;
    return this.#episode(request, await playTries(settings, request, options.signal, (run) => attempt(settings, run)));
  }

  /** All tasks, at most `nParallelAgents` at once; results in the order of the tasks. One failure never ends the batch. */
  executeTasks(tasks: readonly Task[], options: BatchOptions = {}): Promise<Episode[]> {
    return inOrderOfTasks(tasks, this.#settings.nParallelAgents, this.#play, options);
  }

  /** Episodes in the order in which they end. Leaving the loop early cancels the rest. */
  async *trajectoryGenerator(tasks: readonly Task[], options: BatchOptions = {}): AsyncGenerator<Episode> {
    const finished = inOrderOfCompletion(tasks, this.#settings.nParallelAgents, this.#play, options);
    for await (const { episode } of finished) yield episode;
  }

  readonly #play: PlayEpisode = (request, options) => this.runEpisode(request, options);

  #episode(request: EpisodeRequest, { result, ledger, tries }: Tries<Outcome>): Episode {
    const { clock, gamma } = this.#settings;
    const { terminationReason, failure, trajectory, finalObservation } = result;
    if (trajectory) computeMcReturns(trajectory.steps, gamma);
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
      masked: isMasked(terminationReason, this.#settings),
      finalObservation,
      tries,
      startedAtMs,
      timing: { totalMs: clock.monotonicMs() - startedAt, modelMs, environmentMs, waitingMs },
    };
  }
}

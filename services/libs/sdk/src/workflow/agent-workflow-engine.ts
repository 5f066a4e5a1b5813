// SPDX-License-Identifier: Apache-2.0
import type { RunOptions } from "../engine/agent-execution-engine.ts";
import { type BatchOptions, inOrderOfCompletion, inOrderOfTasks, type PlayEpisode } from "../engine/batch.ts";
import { isMasked } from "../engine/ending.ts";
import type { EpisodeRequest } from "../engine/options.ts";
import { playTries, type Tries } from "../engine/tries.ts";
import type { Episode, Task } from "../types.ts";
import { attemptWorkflow, type WorkflowTry } from "./attempt-workflow.ts";
import { type AgentWorkflowEngineOptions, resolveWorkflowOptions, type WorkflowSettings } from "./options.ts";

/** Plays workflows and rollouts. A failure is part of the result: nothing here throws because an episode failed. */
export class AgentWorkflowEngine {
  readonly #settings: WorkflowSettings;

  constructor(options: AgentWorkflowEngineOptions) {
    this.#settings = resolveWorkflowOptions(options);
  }

  /** Plays until a try ends for good: by its result, by a failure that a retry cannot mend, or by the retry limit. */
  async runEpisode(request: EpisodeRequest, options: RunOptions = {}): Promise<Episode> {
    const settings = this.#settings;
    const played = await playTries(settings, request, options.signal, (run) => attemptWorkflow(settings, run));
    const episode = episodeOf(settings, request, played);
    try {
      await settings.onEpisode(episode);
    } catch (error) {
      settings.log("onEpisode failed", { episodeId: episode.id, error });
    }
    return episode;
  }

  /** All tasks, at most `nParallelTasks` at once; results in the order of the tasks. One failure never ends the batch. */
  executeTasks(tasks: readonly Task[], options: BatchOptions = {}): Promise<Episode[]> {
    return inOrderOfTasks(tasks, this.#settings.nParallelAgents, this.#play, options);
  }

  /** Episodes in the order in which they end. Leaving the loop early cancels the rest. */
  async *episodeGenerator(tasks: readonly Task[], options: BatchOptions = {}): AsyncGenerator<Episode> {
    const finished = inOrderOfCompletion(tasks, this.#settings.nParallelAgents, this.#play, options);
    for await (const { episode } of finished) yield episode;
  }

  readonly #play: PlayEpisode = (request, options) => this.runEpisode(request, options);
}

function episodeOf(
  settings: WorkflowSettings,
  { id, task, seed }: EpisodeRequest,
  { result, ledger, tries }: Tries<WorkflowTry>,
): Episode {
  const { startedAtMs, startedAt, modelMs, environmentMs, waitingMs } = ledger;
  const { terminationReason, failure, outcome } = result;
  return {
    id,
    task,
    seed,
    terminationReason,
    failure,
    ...outcome,
    masked: isMasked(terminationReason, settings),
    finalObservation: "",
    tries,
    startedAtMs,
    timing: { totalMs: settings.clock.monotonicMs() - startedAt, modelMs, environmentMs, waitingMs },
  };
}

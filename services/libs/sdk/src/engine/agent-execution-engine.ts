// SPDX-License-Identifier: Apache-2.0
import { Deadline, deriveSeed, Gate } from "@whetstone/core";
import { isRetried } from "../failure.ts";
import { computeMcReturns, computeTrajectoryReward } from "../rewards.ts";
import type { Episode, Task } from "../types.ts";
import { attempt, isMasked, type Outcome } from "./attempt.ts";
import {
  type AgentExecutionEngineOptions,
  type EngineSettings,
  type EpisodeRequest,
  resolveOptions,
} from "./options.ts";

export interface RunOptions {
  readonly signal?: AbortSignal | undefined;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;

/** Plays agents against environments. A failure is part of the result: nothing here throws because an episode failed. */
export class AgentExecutionEngine {
  readonly #settings: EngineSettings;

  constructor(options: AgentExecutionEngineOptions) {
    this.#settings = resolveOptions(options);
  }

  /** Plays until a try ends for good: by its result, by a failure that a retry cannot mend, or by the retry limit. */
  async runEpisode(request: EpisodeRequest, options: RunOptions = {}): Promise<Episode> {
    const { clock, trajectoryTimeoutMs, retryLimit } = this.#settings;
    const ledger = {
      startedAtMs: clock.now(),
      startedAt: clock.monotonicMs(),
      modelMs: 0,
      environmentMs: 0,
      waitingMs: 0,
    };
    using deadline = Deadline.after(trajectoryTimeoutMs, options.signal);
    for (let tries = 1; ; tries += 1) {
      const outcome = await attempt(this.#settings, { ...request, ...clockOf(deadline), try: tries });
      ledger.modelMs += outcome.modelMs;
      ledger.environmentMs += outcome.environmentMs;
      const again =
        tries <= retryLimit && isRetried(outcome.failure.class) && (await this.#pause(tries, ledger, deadline));
      if (!again) return this.#episode(request, outcome, ledger, tries);
    }
  }

  /** All tasks, at most `nParallelAgents` at once; results in the order of the tasks. One failure never ends the batch. */
  async executeTasks(tasks: readonly Task[], options: RunOptions & { seed?: number } = {}): Promise<Episode[]> {
    const results: Episode[] = [];
    for await (const { index, episode } of this.#inOrderOfCompletion(tasks, options)) results[index] = episode;
    return results;
  }

  /** Episodes in the order in which they end. Leaving the loop early cancels the rest. */
  async *trajectoryGenerator(
    tasks: readonly Task[],
    options: RunOptions & { seed?: number } = {},
  ): AsyncGenerator<Episode> {
    for await (const { episode } of this.#inOrderOfCompletion(tasks, options)) yield episode;
  }

  async *#inOrderOfCompletion(
    tasks: readonly Task[],
    { signal, seed = 0 }: RunOptions & { seed?: number },
  ): AsyncGenerator<{ index: number; episode: Episode }> {
    const leaving = new AbortController();
    const either = AbortSignal.any(signal ? [signal, leaving.signal] : [leaving.signal]);
    const gate = new Gate(this.#settings.nParallelAgents, { maxQueued: tasks.length + 1 });
    const finished = new CompletionQueue<{ index: number; episode: Episode }>();
    for (const [index, task] of tasks.entries()) {
      const request = { id: `${task.id}:${index}`, task, seed: deriveSeed(seed, index) };
      void gate
        .run(() => this.runEpisode(request, { signal: either }))
        .then((episode) => finished.push({ index, episode }));
    }
    try {
      for (let left = tasks.length; left > 0; left -= 1) yield await finished.next();
    } finally {
      leaving.abort();
    }
  }

  /** @returns false when the deadline or a cancel came first: the failure that led here stays the result. */
  async #pause(tries: number, ledger: { waitingMs: number }, deadline: Deadline): Promise<boolean> {
    const { clock } = this.#settings;
    const startedAt = clock.monotonicMs();
    const ms = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (tries - 1));
    const slept = await clock.sleep(ms, deadline.signal).then(
      () => true,
      () => false,
    );
    ledger.waitingMs += clock.monotonicMs() - startedAt;
    return slept;
  }

  #episode(request: EpisodeRequest, outcome: Outcome, ledger: Ledger, tries: number): Episode {
    const { clock, gamma } = this.#settings;
    const { terminationReason, failure, trajectory, finalObservation } = outcome;
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

function clockOf(deadline: Deadline): { signal: AbortSignal; remainingMs: () => number } {
  return { signal: deadline.signal, remainingMs: () => deadline.remainingMs() };
}

interface Ledger {
  readonly startedAtMs: number;
  readonly startedAt: number;
  readonly modelMs: number;
  readonly environmentMs: number;
  readonly waitingMs: number;
}

class CompletionQueue<T> {
  readonly #items: T[] = [];
  #waiting: ((item: T) => void) | undefined;

  push(item: T): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) waiting(item);
    else this.#items.push(item);
  }

  next(): Promise<T> {
    const item = this.#items.shift();
    if (item !== undefined) return Promise.resolve(item);
    return new Promise((resolve) => (this.#waiting = resolve));
  }
}

// SPDX-License-Identifier: Apache-2.0
import { deriveSeed, Gate } from "@whetstone/core";
import type { Episode, Task } from "../types.ts";
import type { EpisodeRequest } from "./options.ts";

export interface BatchOptions {
  readonly signal?: AbortSignal | undefined;
  /** Each episode's seed comes from it and from the task's index. Default 0. */
  readonly seed?: number;
}

export type PlayEpisode = (request: EpisodeRequest, options: { signal: AbortSignal }) => Promise<Episode>;

interface Finished {
  /** Of the task. */
  readonly index: number;
  readonly episode: Episode;
}

/** All tasks, at most `limit` at once; results in the order of the tasks. */
export async function inOrderOfTasks(
  tasks: readonly Task[],
  limit: number,
  play: PlayEpisode,
  options: BatchOptions,
): Promise<Episode[]> {
  const results: Episode[] = [];
  for await (const { index, episode } of inOrderOfCompletion(tasks, limit, play, options)) results[index] = episode;
  return results;
}

/** All tasks, at most `limit` at once, as they end. Leaving the loop early cancels the rest. `play` must not throw. */
export async function* inOrderOfCompletion(
  tasks: readonly Task[],
  limit: number,
  play: PlayEpisode,
  { signal, seed = 0 }: BatchOptions,
): AsyncGenerator<Finished> {
  const leaving = new AbortController();
  const either = AbortSignal.any(signal ? [signal, leaving.signal] : [leaving.signal]);
  const gate = new Gate(limit, { maxQueued: tasks.length + 1 });
  const finished = new CompletionQueue<Finished>();
  for (const [index, task] of tasks.entries()) {
    const request = { id: `${task.id}:${index}`, task, seed: deriveSeed(seed, index) };
    void gate.run(() => play(request, { signal: either })).then((episode) => finished.push({ index, episode }));
  }
  try {
    for (let left = tasks.length; left > 0; left -= 1) yield await finished.next();
  } finally {
    leaving.abort();
  }
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

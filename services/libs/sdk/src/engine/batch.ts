// SPDX-License-Identifier: Apache-2.0
import { deriveSeed } from "@whetstone/core";
import type { Episode, Task } from "../types.ts";
import type { EpisodeRequest } from "./options.ts";

export interface BatchOptions {
  readonly signal?: AbortSignal | undefined;
  /** Each episode's seed comes from it and from the episode's index. Default 0. */
  readonly seed?: number;
  /** Episodes of each task, one after the other in the results. Default 1. */
  readonly nSamples?: number;
}

export type PlayEpisode = (request: EpisodeRequest, options: { signal: AbortSignal }) => Promise<Episode>;

export interface Finished {
  /** Of the episode: task index × nSamples + sample. */
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

/**
 * All tasks, at most `limit` at once, as they end. An episode takes memory from its start on, not before; and those that
 * ended but were not fetched bound those that begin. Leaving the loop early cancels the rest. `play` must not throw.
 */
export async function* inOrderOfCompletion(
  tasks: readonly Task[],
  limit: number,
  play: PlayEpisode,
  { signal, seed = 0, nSamples = 1 }: BatchOptions,
): AsyncGenerator<Finished> {
  const leaving = new AbortController();
  const either = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal]);
  const count = tasks.length * nSamples;
  const finished = new Completed<Finished>();
  let started = 0;
  let playing = 0;
  const startSome = (): void => {
    while (started < count && playing < limit && finished.unread < limit) {
      const index = started;
      const task = tasks[Math.floor(index / nSamples)] as Task;
      started += 1;
      playing += 1;
      void play({ id: `${task.id}:${index}`, task, seed: deriveSeed(seed, index) }, { signal: either }).then(
        (episode) => {
          playing -= 1;
          finished.push({ index, episode });
          startSome();
        },
      );
    }
  };
  startSome();
  try {
    for (let left = count; left > 0; left -= 1) {
      const next = await finished.next();
      startSome();
      yield next;
    }
  } finally {
    leaving.abort();
  }
}

class Completed<T> {
  #items: T[] = [];
  #head = 0;
  #waiting: ((item: T) => void) | undefined;

  get unread(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) waiting(item);
    else this.#items.push(item);
  }

  next(): Promise<T> {
    if (this.unread === 0) return new Promise((resolve) => (this.#waiting = resolve));
    const item = this.#items[this.#head] as T;
    this.#head += 1;
    if (this.#head === this.#items.length || this.#head >= 1024) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return Promise.resolve(item);
  }
}

// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";

import { passOrder, WhetstoneError } from "@whetstone/core";

import { type DatasetTask, taskLine } from "./task.ts";

export interface CursorOptions {
  /** Orders the passes. Default 0. */
  readonly seed?: number;
  /** Each pass in an order of its own that follows from seed and pass alone. Default: as listed. */
  readonly shuffle?: boolean;
  /** Goes on where another cursor stood. */
  readonly state?: CursorState;
}

/** Where a cursor stands: plain JSON, for a checkpoint. */
export interface CursorState {
  /** Tasks given so far, over all passes. */
  readonly position: number;
  readonly seed: number;
  readonly shuffle: boolean;
  /** SHA-256 of all tasks: a cursor goes on only over the same ones. */
  readonly digest: string;
}

/** Goes through a dataset's tasks again and again; after a restore exactly as it would have gone on. Holds all tasks in memory. */
export class DatasetCursor {
  readonly #tasks: readonly DatasetTask[];
  readonly #seed: number;
  readonly #shuffle: boolean;
  readonly #digest: string;
  #position = 0;
  #pass = -1;
  #order: Uint32Array = new Uint32Array();

  /** @throws WhetstoneError FAILED_PRECONDITION when `state` is of other tasks or another order. */
  constructor(tasks: readonly DatasetTask[], { seed = 0, shuffle = false, state }: CursorOptions = {}) {
    if (tasks.length === 0) throw new WhetstoneError("INVALID_ARGUMENT", "a cursor needs at least one task");
    this.#tasks = tasks;
    this.#seed = state?.seed ?? seed;
    this.#shuffle = state?.shuffle ?? shuffle;
    this.#digest = digestOf(tasks);
    if (state) this.restore(state);
  }

  /** Passes finished. */
  get pass(): number {
    return Math.floor(this.#position / this.#tasks.length);
  }

  next(): DatasetTask {
    const { pass } = this;
    const index = this.#position % this.#tasks.length;
    if (this.#shuffle && pass !== this.#pass) {
      this.#order = passOrder(this.#tasks.length, this.#seed, pass);
      this.#pass = pass;
    }
    this.#position += 1;
    return this.#tasks[this.#shuffle ? (this.#order[index] as number) : index] as DatasetTask;
  }

  state(): CursorState {
    return { position: this.#position, seed: this.#seed, shuffle: this.#shuffle, digest: this.#digest };
  }

  restore(state: CursorState): void {
    if (state.digest !== this.#digest)
      throw new WhetstoneError("FAILED_PRECONDITION", "the dataset is not the one this cursor's state was taken from");
    if (state.seed !== this.#seed || state.shuffle !== this.#shuffle)
      throw new WhetstoneError("FAILED_PRECONDITION", "the state was taken from a cursor with another seed or order");
    if (!Number.isSafeInteger(state.position) || state.position < 0)
      throw new WhetstoneError("INVALID_ARGUMENT", `state.position must be a whole number, not ${state.position}`);
    this.#position = state.position;
  }
}

function digestOf(tasks: readonly DatasetTask[]): string {
  const hash = createHash("sha256");
  for (const task of tasks) hash.update(taskLine(task));
  return hash.digest("hex");
}

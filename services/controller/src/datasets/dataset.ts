// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { makePassOrder, runInTurns } from "@whetstone/core";
import { type Task, TaskSchema } from "@whetstone/proto/types/v1/types";

/** Tasks by index, in order and again from the start. */
export interface TaskList {
  readonly length: number;
  /** The task at position i of an endless pass over the list. */
  at(position: number): Promise<Task>;
}

/** Tasks "seed-<n>" with the payload {seed: n}. */
export function seedTasks(first: number, count: number): TaskList {
  return { length: count, at: (position) => Promise.resolve(seedTask(first + (position % count))) };
}

export function listTasks(tasks: readonly Task[]): TaskList {
  return { length: tasks.length, at: (position) => Promise.resolve(tasks[position % tasks.length] as Task) };
}

/** Only the first n tasks. */
export function takenTasks(tasks: TaskList, count: number): TaskList {
  const length = Math.min(tasks.length, count);
  return { length, at: (position) => tasks.at(position % length) };
}

/** Each task so many times in a row; its copies are called "<id>#2", "<id>#3", … */
export function repeatedTasks(tasks: TaskList, times: number): TaskList {
  return {
    length: tasks.length * times,
    async at(position) {
      const task = await tasks.at(Math.floor(position / times));
      const copy = (position % times) + 1;
      return copy === 1 ? task : create(TaskSchema, { ...task, id: `${task.id}#${copy}` });
    },
  };
}

/** Each pass in an order of its own that follows from the seed alone; no permutation is kept for passes gone by. */
export function shuffledTasks(tasks: TaskList, seed: bigint): TaskList {
  let pass = -1;
  let order = Promise.resolve<Uint32Array>(new Uint32Array());
  return {
    length: tasks.length,
    async at(position) {
      const wanted = Math.floor(position / tasks.length);
      if (wanted !== pass) {
        order = runInTurns(makePassOrder(tasks.length, seed, wanted));
        pass = wanted;
      }
      return tasks.at((await order)[position % tasks.length] as number);
    },
  };
}

function seedTask(seed: number): Task {
  return create(TaskSchema, { id: `seed-${seed}`, payload: { seed } });
}

import { create } from "@bufbuild/protobuf";
import { createRng, deriveSeed } from "@whetstone/core";
import { type Task, TaskSchema } from "@whetstone/proto/types/v1/types";

/** Tasks by index, in order and again from the start. */
export interface TaskList {
  readonly length: number;
  /** The task at position i of an endless pass over the list. */
  at(position: number): Task;
}

/** Tasks "seed-<n>" with the payload {seed: n}. */
export function seedTasks(first: number, count: number): TaskList {
  return { length: count, at: (position) => seedTask(first + (position % count)) };
}

export function listTasks(tasks: readonly Task[]): TaskList {
  return { length: tasks.length, at: (position) => tasks[position % tasks.length] as Task };
}

/** Each pass in an order of its own that follows from the seed alone; no permutation is kept for passes gone by. */
export function shuffledTasks(tasks: TaskList, seed: number): TaskList {
  let pass = -1;
  let order: number[] = [];
  return {
    length: tasks.length,
    at(position) {
      const wanted = Math.floor(position / tasks.length);
      if (wanted !== pass) {
        order = permutation(tasks.length, seed, wanted);
        pass = wanted;
      }
      return tasks.at(order[position % tasks.length] as number);
    },
  };
}

function permutation(length: number, seed: number, pass: number): number[] {
  return createRng(deriveSeed(seed, "pass", pass)).shuffle(Array.from({ length }, (_, i) => i));
}

function seedTask(seed: number): Task {
  return create(TaskSchema, { id: `seed-${seed}`, payload: { seed } });
}

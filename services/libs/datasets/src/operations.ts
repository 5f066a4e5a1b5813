// SPDX-License-Identifier: Apache-2.0
import { passOrder, WhetstoneError } from "@whetstone/core";

import { copiesOf, type DatasetTask } from "./task.ts";

export type KeepTask = (task: DatasetTask) => boolean | Promise<boolean>;
export type ChangeTask = (task: DatasetTask) => DatasetTask | Promise<DatasetTask>;

/** What a dataset does with the tasks of its source, in order. */
export type Operation =
  | { readonly kind: "take"; readonly count: number }
  | { readonly kind: "shuffle"; readonly seed: number }
  | { readonly kind: "repeat"; readonly times: number }
  | { readonly kind: "filter"; readonly keep: KeepTask }
  | { readonly kind: "map"; readonly change: ChangeTask };

/** Tasks after the operations; only a shuffle holds them in memory. */
export function applyAll(
  tasks: AsyncIterable<DatasetTask>,
  operations: readonly Operation[],
): AsyncIterable<DatasetTask> {
  return operations.reduce(apply, tasks);
}

async function* apply(tasks: AsyncIterable<DatasetTask>, operation: Operation): AsyncGenerator<DatasetTask> {
  switch (operation.kind) {
    case "take":
      yield* take(tasks, operation.count);
      return;
    case "shuffle":
      yield* shuffle(tasks, operation.seed);
      return;
    case "repeat":
      for await (const task of tasks) yield* copiesOf(task, operation.times);
      return;
    case "filter":
      for await (const task of tasks) if (await operation.keep(task)) yield task;
      return;
    case "map":
      for await (const task of tasks) yield await operation.change(task);
  }
}

/** Does not read one task more than it gives. */
async function* take(tasks: AsyncIterable<DatasetTask>, count: number): AsyncGenerator<DatasetTask> {
  let given = 0;
  for await (const task of tasks) {
    yield task;
    given += 1;
    if (given >= count) return;
  }
}

async function* shuffle(tasks: AsyncIterable<DatasetTask>, seed: number): AsyncGenerator<DatasetTask> {
  const all = await Array.fromAsync(tasks);
  for (const index of passOrder(all.length, seed, 0)) yield all[index] as DatasetTask;
}

/** @throws WhetstoneError INVALID_ARGUMENT */
export function checkInteger(value: number, least: number, what: string): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new WhetstoneError(
    "INVALID_ARGUMENT",
    `${what} must be a whole number of at least ${least}, not ${String(value)}`,
  );
}

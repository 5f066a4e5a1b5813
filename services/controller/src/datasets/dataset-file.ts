// SPDX-License-Identifier: Apache-2.0
import type { Dataset } from "@whetstone/proto/jobs/v1/jobs";
import type { Task } from "@whetstone/proto/types/v1/types";
import { listTasks, repeatedTasks, seedTasks, shuffledTasks, takenTasks, type TaskList } from "./dataset.ts";
import { parseTask } from "./task-line.ts";
import { readLines } from "./file-lines.ts";

/** Most tasks of a JSONL file; they are held in memory. */
const MAX_TASKS = 5_000_000;

/**
 * Takes the first tasks, shuffles what was taken, repeats what was shuffled.
 * @throws Error naming file and line for anything that is not a Task in protobuf's JSON form.
 */
export async function loadDataset({ source, take, shuffleSeed, repeat }: Dataset): Promise<TaskList> {
  const all = await loadSource(source, take);
  const taken = take === undefined ? all : takenTasks(all, Number(take));
  const ordered = shuffleSeed === undefined ? taken : shuffledTasks(taken, shuffleSeed);
  return repeat === undefined ? ordered : repeatedTasks(ordered, repeat);
}

async function loadSource(source: Dataset["source"], take: bigint | undefined): Promise<TaskList> {
  switch (source.case) {
    case "seeds":
      return seedTasks(Number(source.value.first), Number(source.value.count));
    case "jsonl":
      return listTasks(await readTasks(source.value, take));
    default:
      throw new Error("a dataset needs a source: one of jsonl, seeds");
  }
}

/** Reads no further than `take`. */
async function readTasks(path: string, take = BigInt(MAX_TASKS) + 1n): Promise<Task[]> {
  const tasks: Task[] = [];
  let line = 0;
  for await (const text of readLines(path)) {
    line++;
    if (text.trim() === "") continue;
    tasks.push(parseTask(text, `${path}:${line}`));
    if (BigInt(tasks.length) >= take) break;
    if (tasks.length > MAX_TASKS) throw new Error(`${path}: more than ${MAX_TASKS} tasks`);
  }
  if (tasks.length === 0) throw new Error(`${path}: no tasks`);
  return tasks;
}

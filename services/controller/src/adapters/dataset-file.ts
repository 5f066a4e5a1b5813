import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { fromJsonString } from "@bufbuild/protobuf";
import type { Dataset } from "@whetstone/proto/jobs/v1/jobs";
import { type Task, TaskSchema } from "@whetstone/proto/types/v1/types";
import { listTasks, seedTasks, shuffledTasks, type TaskList } from "../domain/dataset.ts";

/** Most tasks of a JSONL file; they are held in memory. */
const MAX_TASKS = 5_000_000;

/** @throws Error naming file and line for anything that is not a Task in protobuf's JSON form. */
export async function loadDataset(dataset: Dataset): Promise<TaskList> {
  const tasks = await loadSource(dataset.source);
  return dataset.shuffleSeed === undefined ? tasks : shuffledTasks(tasks, Number(dataset.shuffleSeed));
}

async function loadSource(source: Dataset["source"]): Promise<TaskList> {
  switch (source.case) {
    case "seeds":
      return seedTasks(Number(source.value.first), Number(source.value.count));
    case "jsonl":
      return listTasks(await readTasks(source.value));
    default:
      throw new Error("a dataset needs a source: one of jsonl, seeds");
  }
}

async function readTasks(path: string): Promise<Task[]> {
  const tasks: Task[] = [];
  let line = 0;
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    line++;
    if (text.trim() === "") continue;
    tasks.push(parseTask(text, path, line));
    if (tasks.length > MAX_TASKS) throw new Error(`${path}: more than ${MAX_TASKS} tasks`);
  }
  if (tasks.length === 0) throw new Error(`${path}: no tasks`);
  return tasks;
}

function parseTask(text: string, path: string, line: number): Task {
  try {
    return fromJsonString(TaskSchema, text);
  } catch (error) {
    throw new Error(`${path}:${line}: not a task: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

// SPDX-License-Identifier: Apache-2.0
/** `whet tasks verify`: grades each task's own repair, and nothing at all, as an episode is graded. */
import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { parseOrThrow, WhetstoneError } from "@whetstone/core";
import { Dataset, type DatasetTask } from "@whetstone/datasets";
import { ProcessBackend } from "@whetstone/sandbox";
import { LibraryStore, type ProofDeps, proveTask, type SweTask, SweTaskSchema } from "@whetstone/swe";

import { badInput } from "../cli-error.ts";
import { LIBRARIES, pathOf, SPLITS } from "../tasks/make-all.ts";
import { type Verdict, type VerifyCount, type VerifyFlags, verifyAll } from "./verify-all.ts";
import type { CommandContext, Outcome } from "./context.ts";
import { numberOf } from "./number-of.ts";
import { harborFolders, verifyHarborTasks } from "./tasks-harbor.ts";

export async function verifyTasks(
  path: string,
  flags: VerifyFlags,
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  const folders = harborFolders(path);
  if (folders.length > 0)
    return await verifyHarborTasks(folders, { flags, ...countOf(flags, folders.length) }, context, outcome);
  const tasks = await tasksOf(path);
  const count = countOf(flags, tasks.length);
  await using backend = await ProcessBackend.start();
  await using libraries = new LibraryStore(resolve(flags.libraries ?? join(folderOf(path), LIBRARIES)), backend);
  const prove = ({ id, payload }: DatasetTask): Promise<Verdict> =>
    proofOf(parseOrThrow(SweTaskSchema, payload, id), { backend, libraries }, context.signal);
  const given = { tasks: tasks.map((task) => ({ id: task.id, task })), ...count, isJson: flags.json === true };
  const isNothing = (reward: number): boolean => reward === 0;
  const { tasks: tried, unsound } = await verifyAll({ ...given, prove, isNothing }, context, outcome);
  const names = new Set(tried.map(({ payload }) => payload["library"]));
  if (given.isJson) context.terminal.json({ tasks: tried.length, libraries: names.size, unsound });
}

function countOf({ sample, seed, atOnce }: VerifyFlags, all: number): VerifyCount {
  return {
    sample: numberOf("--sample", sample, all, { least: 1, most: 1_000_000, whole: true }),
    seed: numberOf("--seed", seed, 0, { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true }),
    atOnce: numberOf("--at-once", atOnce, 1, { least: 1, most: 1000, whole: true }),
  };
}

/** Of one file, or of both splits in a folder that `whet tasks make` made. */
async function tasksOf(path: string): Promise<DatasetTask[]> {
  if (!existsSync(path)) throw badInput([{ path: "<path>", reason: `${path} does not exist` }]);
  const files = folderOf(path) === path ? SPLITS.map((split) => pathOf(split, path)).filter(existsSync) : [path];
  if (files.length === 0)
    throw badInput([
      { path: "<path>", reason: `${path} holds no train.jsonl or heldout.jsonl, and no folder with a task.toml` },
    ]);
  return (await Promise.all(files.map((file) => Dataset.fromFile(file, "swe").toArray()))).flat();
}

function folderOf(path: string): string {
  return statSync(path).isDirectory() ? path : dirname(path);
}

async function proofOf(task: SweTask, deps: ProofDeps, signal: AbortSignal): Promise<Verdict> {
  try {
    return await proveTask(deps, task, signal);
  } catch (error) {
    const { code, message } = WhetstoneError.from(error);
    if (code !== "TASK_INVALID") throw error;
    return { error: message };
  }
}

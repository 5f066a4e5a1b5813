// SPDX-License-Identifier: Apache-2.0
/** `whet tasks verify`: grades each task's own repair, and nothing at all, as an episode is graded. */
import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { createRng, parseOrThrow, WhetstoneError } from "@whetstone/core";
import { Dataset, type DatasetTask } from "@whetstone/datasets";
import { ProcessBackend } from "@whetstone/sandbox";
import { LibraryStore, type Proof, type ProofDeps, proveTask, type SweTask, SweTaskSchema } from "@whetstone/swe";

import { badInput, EXIT } from "../cli-error.ts";
import { LIBRARIES, pathOf, SPLITS } from "../tasks/make-all.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";
import { numberOf } from "./number-of.ts";

export interface VerifyFlags extends CommonOptions {
  readonly libraries?: string;
  readonly sample?: string;
  readonly seed?: string;
  readonly atOnce?: string;
}

/** A task and why it is not sound. */
type Unsound = { readonly id: string } & (Proof | { readonly error: string });

export async function verifyTasks(
  path: string,
  flags: VerifyFlags,
  { terminal, signal }: CommandContext,
  outcome: Outcome,
): Promise<void> {
  const all = await tasksOf(path);
  const sample = numberOf("--sample", flags.sample, all.length, { least: 1, most: 1_000_000, whole: true });
  const seed = numberOf("--seed", flags.seed, 0, { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true });
  const atOnce = numberOf("--at-once", flags.atOnce, 1, { least: 1, most: 1000, whole: true });
  const tasks = createRng(seed).shuffle(all).slice(0, sample);
  await using backend = await ProcessBackend.start();
  await using libraries = new LibraryStore(resolve(flags.libraries ?? join(folderOf(path), LIBRARIES)), backend);
  const say = (line: string): void => (flags.json === true ? terminal.error(line) : terminal.line(line));
  const unsound: Unsound[] = [];
  let done = 0;
  const verify = async ({ id, payload }: DatasetTask): Promise<void> => {
    const proof = await proofOf(parseOrThrow(SweTaskSchema, payload, id), { backend, libraries }, signal);
    const isSound = "gold" in proof && proof.gold === 1 && proof.empty === 0;
    if (!isSound) unsound.push({ id, ...proof });
    done += 1;
    say(`${done} of ${tasks.length}: ${id}: ${isSound ? "sound" : JSON.stringify(proof)}`);
  };
  const left = tasks.values();
  const worker = async (): Promise<void> => {
    for (const task of left) await verify(task);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (unsound.length > 0) outcome.exitCode = EXIT.other;
  const names = new Set(tasks.map(({ payload }) => payload["library"]));
  if (flags.json === true) return terminal.json({ tasks: tasks.length, libraries: names.size, unsound });
  terminal.line(`${tasks.length - unsound.length} of ${tasks.length} tasks are sound`);
}

/** Of one file, or of both splits in a folder that `whet tasks make` made. */
async function tasksOf(path: string): Promise<DatasetTask[]> {
  if (!existsSync(path)) throw badInput([{ path: "<path>", reason: `${path} does not exist` }]);
  const files = folderOf(path) === path ? SPLITS.map((split) => pathOf(split, path)).filter(existsSync) : [path];
  if (files.length === 0) throw badInput([{ path: "<path>", reason: `${path} holds no train.jsonl or heldout.jsonl` }]);
  return (await Promise.all(files.map((file) => Dataset.fromFile(file, "swe").toArray()))).flat();
}

function folderOf(path: string): string {
  return statSync(path).isDirectory() ? path : dirname(path);
}

async function proofOf(task: SweTask, deps: ProofDeps, signal: AbortSignal): Promise<Proof | { error: string }> {
  try {
    return await proveTask(deps, task, signal);
  } catch (error) {
    const { code, message } = WhetstoneError.from(error);
    if (code !== "TASK_INVALID") throw error;
    return { error: message };
  }
}

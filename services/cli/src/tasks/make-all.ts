// SPDX-License-Identifier: Apache-2.0
/** Library after library: its folder, then its tasks, which go to the file of its split. */
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { deriveSeed, raceSignal } from "@whetstone/core";
import { taskLine } from "@whetstone/datasets";
import type { SandboxBackend } from "@whetstone/sandbox";
import {
  folderNameOf,
  type LibraryPin,
  type LibrarySources,
  LibraryStore,
  type MadeTask,
  makeLibrary,
  makeTasks,
  type ProofDeps,
  proveTask,
  readRecord,
  STATE_FILE,
} from "@whetstone/swe";

import { CliError } from "../cli-error.ts";

export interface MakeAllOptions {
  readonly folder: string;
  readonly pins: readonly LibraryPin[];
  /** Tasks of each library. */
  readonly count: number;
  readonly pairs: number;
  readonly seed: number;
  /** Longest time for each library. */
  readonly minutes: number;
}

export interface MakeAllDeps {
  readonly backend: SandboxBackend;
  readonly sources: LibrarySources;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface SplitSummary {
  readonly split: LibraryPin["split"];
  readonly path: string;
  readonly tasks: number;
  readonly libraries: number;
}

const MINUTE_MS = 60_000;
export const LIBRARIES = "libraries";
export const SPLITS = ["train", "heldout"] as const satisfies readonly LibraryPin["split"][];

/**
 * A library that has its tasks is not done again: an interrupted command goes on where it was, and where tasks came without what
 * sandboxes begin with, that is made.
 */
export async function makeAll(options: MakeAllOptions, deps: MakeAllDeps): Promise<{ readonly files: SplitSummary[] }> {
  try {
    return await raceSignal(makeEach(options, deps), deps.signal);
  } catch (error) {
    if (!deps.signal.aborted) throw error;
    throw new CliError("STOPPED", "stopped; the same command goes on with what is missing");
  }
}

async function makeEach(options: MakeAllOptions, deps: MakeAllDeps): Promise<{ readonly files: SplitSummary[] }> {
  const { folder, pins } = options;
  await mkdir(join(folder, LIBRARIES), { recursive: true });
  await using libraries = new LibraryStore(join(folder, LIBRARIES), deps.backend);
  for (const pin of pins) {
    deps.signal.throwIfAborted();
    await ensureState(pin, options, deps);
    if (!(await readSplit(pin.split, folder)).has(folderNameOf(pin))) await makeOne(pin, libraries, options, deps);
  }
  const files = await Promise.all(SPLITS.map((split) => summaryOf(split, folder)));
  return { files: files.filter(({ tasks }) => tasks > 0) };
}

async function makeOne(
  pin: LibraryPin,
  libraries: LibraryStore,
  { folder, count, pairs, seed, minutes }: MakeAllOptions,
  { backend, say, signal }: MakeAllDeps,
): Promise<void> {
  const name = folderNameOf(pin);
  const library = await libraries.open(name);
  const end = AbortSignal.any([signal, AbortSignal.timeout(minutes * MINUTE_MS)]);
  let tries = 0;
  const onTry = (): number => (tries += 1);
  const tasks = await makeTasks(library, { backend, count, pairs, seed: deriveSeed(seed, name), signal: end, onTry });
  if (signal.aborted) return;
  const sound = await soundOf(tasks, { backend, libraries }, signal);
  const lines = sound.map((task) => taskLine({ ...task, payload: { ...task.payload }, source: pin.name }));
  await addToSplit(pin.split, folder, lines);
  say(`${name}: ${sound.length} tasks of ${tries} tries, ${tasks.length - sound.length} left out as not sound`);
}

/** Those whose repair is worth 1 and whose bug is worth 0 when they are graded as an episode is. */
async function soundOf(tasks: readonly MadeTask[], deps: ProofDeps, signal: AbortSignal): Promise<MadeTask[]> {
  const sound: MadeTask[] = [];
  for (const task of tasks) {
    const { gold, empty } = await proveTask(deps, task.payload, signal);
    if (gold === 1 && empty === 0) sound.push(task);
  }
  return sound;
}

async function ensureState(
  pin: LibraryPin,
  { folder }: MakeAllOptions,
  { backend, sources, say }: MakeAllDeps,
): Promise<void> {
  const name = folderNameOf(pin);
  const own = join(folder, LIBRARIES, name);
  const record = await readRecord(own).catch(() => undefined);
  const isKnown = record?.sdist.sha256 === pin.sdist.sha256;
  if (isKnown && existsSync(join(own, STATE_FILE))) return;
  if (isKnown) return void (await sources.writeState(pin, join(own, STATE_FILE)));
  const { stable, seconds } = await makeLibrary(pin, { folder: join(folder, LIBRARIES), sources, backend });
  say(`${name}: ${stable.length} tests pass each time, in ${seconds} s`);
}

export function pathOf(split: LibraryPin["split"], folder: string): string {
  return join(folder, `${split}.jsonl`);
}

/** Lines by library. */
async function readSplit(split: LibraryPin["split"], folder: string): Promise<Map<string, string[]>> {
  const path = pathOf(split, folder);
  const lines = existsSync(path) ? (await readFile(path, "utf8")).split("\n").filter((line) => line !== "") : [];
  return Map.groupBy(lines, (line) => (JSON.parse(line) as { payload: { library: string } }).payload.library);
}

async function addToSplit(split: LibraryPin["split"], folder: string, lines: readonly string[]): Promise<void> {
  const path = pathOf(split, folder);
  const before = existsSync(path) ? await readFile(path, "utf8") : "";
  if (lines.length === 0) return;
  await writeFile(`${path}.new`, before + lines.join(""));
  await rename(`${path}.new`, path);
}

async function summaryOf(split: LibraryPin["split"], folder: string): Promise<SplitSummary> {
  const byLibrary = await readSplit(split, folder);
  const tasks = [...byLibrary.values()].reduce((sum, lines) => sum + lines.length, 0);
  return { split, path: pathOf(split, folder), tasks, libraries: byLibrary.size };
}

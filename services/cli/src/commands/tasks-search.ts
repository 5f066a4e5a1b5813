// SPDX-License-Identifier: Apache-2.0
/** `whet tasks make search`: a corpus of invented facts, and questions over it. `whet corpora index`: a corpus' index, ahead of its job. */
import { rename, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { taskLine } from "@whetstone/datasets";
import { IndexStore, makeSearchTasks } from "@whetstone/search";
import { EpisodeError } from "@whetstone/sdk";
import { badInput } from "../cli-error.ts";
import { dataPaths, dataDirectory } from "../runtime/layout.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { numberOf } from "./number-of.ts";

export interface MakeSearchFlags extends CommonOptions {
  readonly out: string;
  readonly count?: string;
  readonly heldout?: string;
  readonly hops?: string;
  readonly seed?: string;
}

const OWN: ReadonlySet<string> = new Set(["out", "count", "heldout", "hops", "seed", "json", "data"]);
const MOST = 100_000;

export async function makeSearchFiles(flags: MakeSearchFlags, context: CommandContext): Promise<void> {
  const foreign = Object.keys(flags).filter((name) => !OWN.has(name));
  if (foreign.length > 0)
    throw badInput(foreign.map((name) => ({ path: `--${name}`, reason: "is of kind swe, not of search" })));
  const folder = resolve(flags.out);
  const train = numberOf("--count", flags.count, 400, { least: 1, most: MOST, whole: true });
  const heldout = numberOf("--heldout", flags.heldout, Math.ceil(train / 4), { least: 1, most: MOST, whole: true });
  const hops = numberOf("--hops", flags.hops, 2, { least: 1, most: 4, whole: true });
  const seed = numberOf("--seed", flags.seed, 0, { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true });
  const { signal } = context;
  const { corpus, splits } = await makeSearchTasks({ folder, counts: { train, heldout }, hops, seed, signal });
  const files = [];
  for (const { split, tasks } of splits) {
    const path = resolve(folder, `${split}.jsonl`);
    await writeFile(`${path}.draft`, tasks.map((task) => taskLine({ ...task, source: "search" })).join(""));
    await rename(`${path}.draft`, path);
    files.push({ split, path, tasks: tasks.length });
  }
  if (flags.json === true) return context.terminal.json({ corpus, files });
  context.terminal.line(`${corpus.passages} passages in ${corpus.path}`);
  for (const { split, path, tasks } of files)
    context.terminal.line(`${split}: ${tasks} questions of ${hops} hops in ${path}`);
}

export async function indexCorpus(file: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  const path = resolve(file);
  const folder = dataPaths(dataDirectory(flags.data, context.environment)).search;
  const onDamage = (message: string): void => context.terminal.error(message);
  await using store = new IndexStore({ folder, onDamage });
  const { passages, words, corpus } = (await store.get(path).catch(refused)).meta;
  if (flags.json === true) return context.terminal.json({ passages, words, corpus, folder });
  context.terminal.line(`${passages} passages, ${words} different words, in ${folder}/${corpus}`);
}

/** A corpus that cannot be read is the user's to mend. */
function refused(error: unknown): never {
  if (error instanceof EpisodeError && error.failureClass === "TASK")
    throw badInput([{ path: "<file>", reason: error.message }]);
  throw error;
}

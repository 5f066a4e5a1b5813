// SPDX-License-Identifier: Apache-2.0
import { deriveSeed } from "@whetstone/core";
import type { SandboxBackend } from "@whetstone/sandbox";
import { folderNameOf } from "../library.ts";
import type { OpenedLibrary } from "../library-store.ts";
import type { SweTask } from "../task.ts";
import { orderOfTries, pairsOf, placeOf } from "./choose.ts";
import { type Attempt, Planter, type PossibleBug } from "./planter.ts";
import { difficultyOf, hintsOf, statementOf } from "./statement.ts";

export interface MadeTask {
  readonly id: string;
  readonly payload: SweTask;
}

export interface MakeTasksOptions {
  readonly backend: SandboxBackend;
  /** Wanted of this library; fewer, where its tests do not catch so many. */
  readonly count: number;
  readonly seed: number;
  /** A share of them has two bugs. */
  readonly pairs: number;
  /** No new try is begun after this. */
  readonly signal: AbortSignal;
  readonly onTry?: ((verdict: Attempt["verdict"], kept: number) => void) | undefined;
}

/** Tests that a bug may break: one that breaks more is found without looking. */
const MAX_FAILURES = 10;
const MAX_FAILURES_REMOVED = 40;
const PER_FUNCTION = 2;

/** Breaks a library again and again, and keeps what its tests catch: every task is proven by the run that found it. */
export async function makeTasks(library: OpenedLibrary, options: MakeTasksOptions): Promise<MadeTask[]> {
  const { backend, count, seed, pairs, signal } = options;
  await using planter = await Planter.start(backend, library.state, library.record.suite);
  await planter.watch(library.record);
  const bugs = await planter.changes([...library.sources.keys()]);
  const singles = await trySingles({ planter, bugs, library }, { ...options, count: Math.ceil(count * (1 - pairs)) });
  const tasks = [...singles.values()];
  for (const pair of pairsOf([...singles.keys()], bugs, deriveSeed(seed, "pairs"))) {
    if (tasks.length >= count || signal.aborted) break;
    const made = await tryOne({ planter, bugs, library }, pair, options, tasks.length);
    if (made !== undefined) tasks.push(made);
  }
  return tasks;
}

interface Workshop {
  readonly planter: Planter;
  readonly bugs: readonly PossibleBug[];
  readonly library: OpenedLibrary;
}

/** @returns tasks by the place in `bugs` */
async function trySingles(workshop: Workshop, options: MakeTasksOptions): Promise<Map<number, MadeTask>> {
  const kept = new Map<number, MadeTask>();
  const perFunction = new Map<string, number>();
  for (const number of orderOfTries(workshop.bugs, options.seed)) {
    if (kept.size >= options.count || options.signal.aborted) break;
    const place = placeOf(workshop.bugs[number]);
    const before = perFunction.get(place) ?? 0;
    if (before >= PER_FUNCTION) continue;
    const made = await tryOne(workshop, [number], options, kept.size);
    if (made === undefined) continue;
    kept.set(number, made);
    perFunction.set(place, before + 1);
  }
  return kept;
}

async function tryOne(
  { planter, bugs, library }: Workshop,
  numbers: readonly number[],
  { onTry }: MakeTasksOptions,
  made: number,
): Promise<MadeTask | undefined> {
  const chosen = numbers.map((number) => bugs[number] as PossibleBug);
  const isRemoved = chosen.some(({ kind }) => kind === "removed_body");
  const { verdict, failed, edits } = await planter.attempt(numbers, isRemoved ? MAX_FAILURES_REMOVED : MAX_FAILURES);
  onTry?.(verdict, made + (verdict === "caught" ? 1 : 0));
  if (verdict !== "caught") return undefined;
  const { record } = library;
  const planted = { library: record, bugs: chosen, failed };
  const name = folderNameOf(record);
  const payload: SweTask = {
    library: name,
    sdist: record.sdist.sha256,
    statement: statementOf(planted),
    hints: hintsOf(planted),
    difficulty: difficultyOf(planted),
    bugs: chosen.map(({ kind }) => kind),
    edits: [...edits],
    failToPass: Object.keys(failed).sort(),
  };
  return { id: `${name}/${String(made).padStart(4, "0")}`, payload };
}

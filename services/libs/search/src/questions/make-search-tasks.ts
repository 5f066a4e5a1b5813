// SPDX-License-Identifier: Apache-2.0
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { abortReason, createRng, deriveSeed } from "@whetstone/core";
import { EpisodeError, type StepResult, type Task } from "@whetstone/sdk";
import type { Searcher } from "@whetstone/tools";
import { IndexStore } from "../index/index-store.ts";
import { TagSearchEnvironment } from "../episode/tag-search.ts";
import { oracleTurn } from "./oracle.ts";
import { type MadeQuestion, makeQuestions } from "./questions.ts";
import { type Entity, inventedNames, inventWorld, passageOf } from "./world.ts";

export interface SearchTaskOptions {
  readonly folder: string;
  /** Questions of each split. */
  readonly counts: { readonly train: number; readonly heldout: number };
  /** Facts between what a question names and its answer. */
  readonly hops: number;
  readonly seed: number;
  readonly signal?: AbortSignal | undefined;
}

export interface MadeSearchTasks {
  readonly corpus: { readonly path: string; readonly passages: number };
  readonly splits: readonly { readonly split: string; readonly tasks: readonly Task[] }[];
}

/**
 * Invents a world for each split, with no entity or fact in common, writes the passages of all of them to corpus.jsonl in the folder, and
 * proves each question: who searches and reads is paid 1, who answers without a search 0.
 * @throws EpisodeError TASK for a question that is not so, or where there are not so many
 */
export async function makeSearchTasks({
  folder,
  counts,
  hops,
  seed,
  signal,
}: SearchTaskOptions): Promise<MadeSearchTasks> {
  const rng = createRng(deriveSeed(seed, "search", hops));
  const names = inventedNames(rng);
  const splits = Object.entries(counts).map(([split, count]) => {
    const world = inventWorld(Math.max(8, Math.ceil(count / 4)), names, rng);
    return { split, world, questions: makeQuestions(world, count, hops, rng) };
  });
  const entities = rng.shuffle(splits.flatMap(({ world }) => world));
  const path = join(folder, "corpus.jsonl");
  await mkdir(folder, { recursive: true });
  await writeFile(path, entities.map((entity: Entity) => `${JSON.stringify(passageOf(entity))}\n`).join(""));
  await proveAll(
    splits.flatMap(({ questions }) => questions),
    path,
    signal,
  );
  return {
    corpus: { path, passages: entities.length },
    splits: splits.map(({ split, questions }) => ({ split, tasks: questions.map(taskOf) })),
  };
}

async function proveAll(questions: readonly MadeQuestion[], corpus: string, signal?: AbortSignal): Promise<void> {
  await using opened = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "whetstone-search-"));
  opened.defer(() => rm(folder, { recursive: true, force: true }));
  const index = await opened.use(new IndexStore({ folder })).get(corpus);
  for (const question of questions) await prove(question, index, signal);
}

function taskOf({ question, answer, path }: MadeQuestion): Task {
  return { id: path.join("-").toLowerCase(), payload: { question, answer, metadata: { path } } };
}

async function prove(made: MadeQuestion, searcher: Searcher, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) throw abortReason(signal);
  const found = await rewardOf(made, searcher, (read) => oracleTurn(made.question, read));
  if (found !== 1) throw new EpisodeError("TASK", `"${made.question}": searching and reading is paid ${found}, not 1`);
  const guesses = [made.path[0] ?? "", made.question];
  for (const guess of guesses) {
    const paid = await rewardOf(made, searcher, () => ({ answer: guess }));
    if (paid !== 0)
      throw new EpisodeError("TASK", `"${made.question}": "${guess}", without a search, is paid ${paid}, not 0`);
  }
}

async function rewardOf(
  { question, answer, path }: MadeQuestion,
  searcher: Searcher,
  policy: (read: string) => ReturnType<typeof oracleTurn>,
): Promise<number | undefined> {
  const environment = new TagSearchEnvironment({ task: { question, answer }, searcher, maxSteps: path.length });
  environment.reset();
  let read = "";
  for (;;) {
    const turn = policy(read);
    const action = "search" in turn ? `<search>${turn.search}</search>` : `<answer>${turn.answer}</answer>`;
    const result: StepResult = await environment.step(action);
    if (result.terminated || result.truncated) return result.reward;
    read += String(result.observation);
  }
}

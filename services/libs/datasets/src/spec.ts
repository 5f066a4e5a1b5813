// SPDX-License-Identifier: Apache-2.0
import { access } from "node:fs/promises";
import { join } from "node:path";

import type { DatasetOrder, DatasetSettings } from "@whetstone/sdk";
import { applyAll, type Operation } from "./operations.ts";
import type { TaskSource } from "./sources.ts";
import { writeTasks } from "./task-file.ts";

/** Files named by what is in them, below the registry's folder. A leading dot: no dataset has such a name. */
const CONTENT = ".tasks";

/** What a job says itself is left to it: the last take, shuffle and repeat, in that order. The rest is written to a file. */
export async function datasetSpec(
  source: TaskSource,
  operations: readonly Operation[],
  folder: string,
): Promise<DatasetSettings> {
  const { rest, order } = splitOrder(operations);
  if (source.seeds && rest.length === 0) return { seeds: source.seeds, ...order };
  const known = rest.length === 0 ? await source.digest?.() : undefined;
  return { jsonl: await contentFile(source, rest, { folder: join(folder, CONTENT), known }), ...order };
}

interface Place {
  readonly folder: string;
  readonly known: string | undefined;
}

async function contentFile(
  source: TaskSource,
  operations: readonly Operation[],
  { folder, known }: Place,
): Promise<string> {
  const pathOf = (digest: string): string => join(folder, `${digest}.jsonl`);
  if (known !== undefined && (await exists(pathOf(known)))) return pathOf(known);
  const { path } = await writeTasks(applyAll(source.tasks(), operations), folder, pathOf);
  return path;
}

/** A job takes first, shuffles what it took, and repeats what it shuffled. */
function splitOrder(operations: readonly Operation[]): { rest: readonly Operation[]; order: DatasetOrder } {
  const rest = [...operations];
  const repeat = pop(rest, "repeat");
  const shuffle = pop(rest, "shuffle");
  const take = pop(rest, "take");
  const order = {
    ...(take && { take: take.count }),
    ...(shuffle && { shuffleSeed: shuffle.seed }),
    ...(repeat && { repeat: repeat.times }),
  };
  return { rest, order };
}

/** Takes the last operation off where it is of this kind. */
function pop<K extends Operation["kind"]>(
  operations: Operation[],
  kind: K,
): Extract<Operation, { kind: K }> | undefined {
  if (operations.at(-1)?.kind !== kind) return undefined;
  return operations.pop() as Extract<Operation, { kind: K }>;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

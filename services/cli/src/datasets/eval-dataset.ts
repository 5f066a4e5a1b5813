// SPDX-License-Identifier: Apache-2.0
/** The tasks of an evaluation: registered datasets, files, or what a job file names. */
import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";

import type { Dataset as DatasetMessage } from "@whetstone/proto/jobs/v1/jobs";
import { Dataset, DatasetRegistry, type DatasetTask } from "@whetstone/datasets";

import { badInput } from "../cli-error.ts";

/** "math:test", "math", "./tasks.csv"; several follow one another. Answers how a job names them. */
export async function datasetOf(texts: readonly string[]): Promise<object> {
  const datasets = await Promise.all(texts.map(openDataset));
  const [only] = datasets;
  return datasets.length === 1 && only ? only.toSpec() : Dataset.fromRows(oneAfterAnother(datasets)).toSpec();
}

/** A file, or what was registered. @throws CliError naming what there is */
export async function openDataset(text: string): Promise<Dataset> {
  if (existsSync(text)) return Dataset.fromFile(text);
  const [name = "", split = await onlySplit(name)] = text.split(":");
  if (await DatasetRegistry.exists(name, split)) return DatasetRegistry.load(name, split);
  const known = (await DatasetRegistry.list()).flatMap((info) => info.splits.map((one) => `${info.name}:${one.split}`));
  const reason = `"${text}" is no file and no registered dataset; there are ${known.join(", ") || "none"}`;
  throw badInput([{ path: "--dataset", reason }]);
}

/** A split need not be named where there is one. */
async function onlySplit(name: string): Promise<string> {
  const splits = await DatasetRegistry.splits(name).catch(() => []);
  return splits.length === 1 ? (splits[0] ?? "default") : "default";
}

async function* oneAfterAnother(datasets: readonly Dataset[]): AsyncGenerator<DatasetTask> {
  for (const dataset of datasets) yield* dataset;
}

/** How many tasks a job will find, for the progress bar. Undefined: the file is not here. */
export async function countTasks({ source, take, repeat }: DatasetMessage): Promise<number | undefined> {
  const all = source.case === "seeds" ? Number(source.value.count) : await countLines(source.value ?? "");
  return all === undefined ? undefined : Math.min(all, Number(take ?? all)) * (repeat ?? 1);
}

async function countLines(path: string): Promise<number | undefined> {
  if (!existsSync(path)) return undefined;
  let count = 0;
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity }))
    if (line.trim() !== "") count += 1;
  return count;
}

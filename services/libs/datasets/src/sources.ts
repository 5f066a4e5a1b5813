// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

import { WhetstoneError } from "@whetstone/core";

import { csvRows, type CsvOptions } from "./csv.ts";
import { parquetRows } from "./parquet.ts";
import { type DatasetTask, taskOfRow } from "./task.ts";

/** Where tasks come from. Read anew by each pass. */
export interface TaskSource {
  /** Dataset's name. */
  readonly name: string;
  tasks(): AsyncIterable<DatasetTask>;
  /** Seeds need no file in a job. */
  readonly seeds?: { readonly first: number; readonly count: number };
  /** SHA-256 of the tasks' lines where it is known without reading them. */
  readonly digest?: () => Promise<string | undefined>;
}

export type Rows = Iterable<unknown> | AsyncIterable<unknown>;

export function rowSource(rows: Rows, name: string): TaskSource {
  return { name, tasks: () => tasksOf(rows, name, (index) => `${name}: row ${index}`) };
}

export function jsonlSource(path: string, name: string): TaskSource {
  return { name, tasks: () => readJsonl(path, name) };
}

export function csvSource(path: string, name: string, options: CsvOptions): TaskSource {
  return { name, tasks: () => tasksOf(csvRows(path, options), name, (index) => `${path}: row ${index + 1}`) };
}

export function parquetSource(path: string, name: string): TaskSource {
  return { name, tasks: () => tasksOf(parquetRows(path), name, (index) => `${path}: row ${index + 1}`) };
}

/** Tasks "seed-<n>" with the payload {seed: n}, as the controller makes them. */
export function seedSource(first: number, count: number): TaskSource {
  return { name: "default", seeds: { first, count }, tasks: () => seedTasks(first, count) };
}

async function* seedTasks(first: number, count: number): AsyncGenerator<DatasetTask> {
  for (let seed = first; seed < first + count; seed += 1)
    yield { id: `seed-${seed}`, payload: { seed }, source: "default" };
}

async function* tasksOf(rows: Rows, name: string, at: (index: number) => string): AsyncGenerator<DatasetTask> {
  let index = 0;
  for await (const row of rows) {
    yield taskOfRow(row, { name, index, at: at(index) });
    index += 1;
  }
}

async function* readJsonl(path: string, name: string): AsyncGenerator<DatasetTask> {
  let line = 0;
  let index = 0;
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    line += 1;
    if (text.trim() === "") continue;
    const at = `${path}:${line}`;
    yield taskOfRow(parse(text, at), { name, index, at });
    index += 1;
  }
}

function parse(text: string, at: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WhetstoneError("INVALID_ARGUMENT", `${at}: not JSON: ${(cause as Error).message}`, { cause });
  }
}

// SPDX-License-Identifier: Apache-2.0
/** Datasets as files for others to read, and evaluation reports to filter by. */
import { createWriteStream } from "node:fs";
import { readFile, rename, rm } from "node:fs/promises";
import { extname } from "node:path";
import { pipeline } from "node:stream/promises";

import { type Dataset, type DatasetTask, type EvaluatedTasks, taskLine } from "@whetstone/datasets";

import { badInput } from "../cli-error.ts";

/** Writes .jsonl or .parquet, all of it or nothing. @returns the number of tasks */
export async function exportDataset(dataset: Dataset, path: string): Promise<number> {
  const write = WRITERS[extname(path).toLowerCase()];
  if (!write) throw badInput([{ path: "<file>", reason: `must end in .jsonl or .parquet, not "${path}"` }]);
  const draft = `${path}.draft`;
  try {
    const count = await write(dataset, draft);
    await rename(draft, path);
    return count;
  } finally {
    await rm(draft, { force: true });
  }
}

const WRITERS: Readonly<Record<string, (dataset: Dataset, path: string) => Promise<number>>> = {
  ".jsonl": writeJsonl,
  ".parquet": writeParquet,
};

async function writeJsonl(dataset: Dataset, path: string): Promise<number> {
  let count = 0;
  const lines = async function* (): AsyncGenerator<string> {
    for await (const task of dataset) {
      count += 1;
      yield taskLine(task);
    }
  };
  await pipeline(lines, createWriteStream(path));
  return count;
}

const ROWS_A_GROUP = 4096;

const COLUMNS = [
  { name: "id", converted_type: "UTF8", repetition_type: "REQUIRED" },
  { name: "source", converted_type: "UTF8", repetition_type: "REQUIRED" },
  { name: "payload", converted_type: "JSON", repetition_type: "REQUIRED" },
  { name: "demonstration", converted_type: "JSON", repetition_type: "OPTIONAL" },
  { name: "chosen", converted_type: "JSON", repetition_type: "OPTIONAL" },
  { name: "rejected", converted_type: "JSON", repetition_type: "OPTIONAL" },
  { name: "chosenCalls", converted_type: "JSON", repetition_type: "OPTIONAL" },
  { name: "rejectedCalls", converted_type: "JSON", repetition_type: "OPTIONAL" },
  { name: "tools", converted_type: "JSON", repetition_type: "OPTIONAL" },
] as const;

/** Read again, each row is the task that it was. */
async function writeParquet(dataset: Dataset, path: string): Promise<number> {
  const { fileWriter, ParquetWriter } = await import("hyparquet-writer");
  const writer = new ParquetWriter({
    writer: fileWriter(path),
    schema: [
      { name: "root", num_children: COLUMNS.length },
      ...COLUMNS.map((column) => ({ type: "BYTE_ARRAY" as const, ...column })),
    ],
  });
  let count = 0;
  let rows: DatasetTask[] = [];
  const flush = async (): Promise<void> => {
    const columnData = COLUMNS.map(({ name }) => ({ name, data: rows.map((task) => task[name]) }));
    rows = [];
    await writer.write({ columnData });
  };
  for await (const task of dataset) {
    count += 1;
    rows.push(task);
    if (rows.length === ROWS_A_GROUP) await flush();
  }
  if (rows.length > 0) await flush();
  await writer.finish();
  return count;
}

/** What `whet eval --report` wrote. */
export async function readEvaluation(path: string): Promise<EvaluatedTasks> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw badInput([{ path: "--eval", reason: `${path} cannot be read (${error.code})` }]);
  });
  try {
    return JSON.parse(text) as EvaluatedTasks;
  } catch {
    throw badInput([{ path: "--eval", reason: `${path} is not JSON; give the report.json of \`whet eval --report\`` }]);
  }
}

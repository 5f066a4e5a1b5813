// SPDX-License-Identifier: Apache-2.0
import { basename, extname, resolve } from "node:path";

import { WhetstoneError } from "@whetstone/core";

import type { DatasetSettings } from "@whetstone/sdk";
import type { CsvOptions } from "./csv.ts";
import { type CursorOptions, DatasetCursor } from "./cursor.ts";
import { datasetsFolder } from "./folder.ts";
import { applyAll, type ChangeTask, checkInteger, type KeepTask, type Operation } from "./operations.ts";
import { csvSource, jsonlSource, parquetSource, rowSource, type Rows, seedSource, type TaskSource } from "./sources.ts";
import { datasetSpec } from "./spec.ts";
import type { DatasetTask } from "./task.ts";

/**
 * A list of tasks as a recipe: a source and what is done with it. Nothing is read before it is iterated, and each iteration reads
 * anew. Every operation gives a new dataset and leaves this one as it is.
 */
export class Dataset implements AsyncIterable<DatasetTask> {
  readonly #source: TaskSource;
  readonly #operations: readonly Operation[];

  constructor(source: TaskSource, operations: readonly Operation[] = []) {
    this.#source = source;
    this.#operations = operations;
  }

  /** Rows in memory; see `taskOfRow` for how a row becomes a task. An iterator can be gone through once only. */
  static fromRows(rows: Rows, name = "rows"): Dataset {
    return new Dataset(rowSource(rows, name));
  }

  /** A file with one row, or one task, a line. */
  static fromJsonl(path: string, name = nameOf(path)): Dataset {
    return new Dataset(jsonlSource(resolve(path), name));
  }

  static fromCsv(path: string, options: CsvOptions & { readonly name?: string } = {}): Dataset {
    return new Dataset(csvSource(resolve(path), options.name ?? nameOf(path), options));
  }

  static fromParquet(path: string, name = nameOf(path)): Dataset {
    return new Dataset(parquetSource(resolve(path), name));
  }

  /** By the name's ending: .jsonl, .csv, .tsv or .parquet. @throws WhetstoneError INVALID_ARGUMENT for another. */
  static fromFile(path: string, name = nameOf(path)): Dataset {
    switch (extname(path).toLowerCase()) {
      case ".jsonl":
      case ".ndjson":
        return Dataset.fromJsonl(path, name);
      case ".csv":
        return Dataset.fromCsv(path, { name });
      case ".tsv":
        return Dataset.fromCsv(path, { name, delimiter: "\t" });
      case ".parquet":
        return Dataset.fromParquet(path, name);
      default:
        throw new WhetstoneError("INVALID_ARGUMENT", `${path}: the name must end in .jsonl, .csv, .tsv or .parquet`);
    }
  }

  /** Tasks "seed-<n>" with the payload {seed: n}. */
  static fromSeeds(first: number, count: number): Dataset {
    return new Dataset(seedSource(checkInteger(first, 0, "first"), checkInteger(count, 1, "count")));
  }

  get name(): string {
    return this.#source.name;
  }

  /** Each task n times in a row; the copies are called "<id>#2", "<id>#3", … */
  repeat(times: number): Dataset {
    return this.#with({ kind: "repeat", times: checkInteger(times, 1, "repeat") });
  }

  /** In an order that follows from the seed. In a job each pass has its own order; the first is this one. */
  shuffle(seed: number): Dataset {
    return this.#with({ kind: "shuffle", seed: checkInteger(seed, 0, "shuffle's seed") });
  }

  /** Only the first n. */
  take(count: number): Dataset {
    return this.#with({ kind: "take", count: checkInteger(count, 1, "take") });
  }

  filter(keep: KeepTask): Dataset {
    return this.#with({ kind: "filter", keep });
  }

  /** The ids must stay unique. */
  map(change: ChangeTask): Dataset {
    return this.#with({ kind: "map", change });
  }

  [Symbol.asyncIterator](): AsyncIterator<DatasetTask> {
    return applyAll(this.#source.tasks(), this.#operations)[Symbol.asyncIterator]();
  }

  async toArray(): Promise<DatasetTask[]> {
    return Array.fromAsync(this);
  }

  /** Reads to the end. */
  async count(): Promise<number> {
    let count = 0;
    for await (const _task of this) count += 1;
    return count;
  }

  /** Goes through the tasks pass after pass, and can be restored from its `state()`. */
  async cursor(options: CursorOptions = {}): Promise<DatasetCursor> {
    return new DatasetCursor(await this.toArray(), options);
  }

  /**
   * The dataset as a job names it. Tasks that no file holds as they are get written to one below WHETSTONE_DATASETS, named by its
   * digest: a submitted job keeps its tasks whatever happens to the dataset.
   */
  async toSpec(): Promise<DatasetSettings> {
    return datasetSpec(this.#source, this.#operations, datasetsFolder());
  }

  #with(operation: Operation): Dataset {
    return new Dataset(this.#source, [...this.#operations, operation]);
  }
}

function nameOf(path: string): string {
  return basename(path, extname(path));
}

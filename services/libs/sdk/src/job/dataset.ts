// SPDX-License-Identifier: Apache-2.0
import type { JobDocument } from "./document.ts";
import { readOrThrow } from "./read-settings.ts";

/** A file with one task a line. The path is meant from the job's own folder. */
export interface JsonlDataset {
  readonly jsonl: string;
}

/** Tasks made from consecutive seeds: task i has the payload `{ seed: first + i }`. */
export interface SeedDataset {
  readonly seeds: { readonly first: number | bigint; readonly count: number };
}

/** How a list of tasks is gone through. */
export interface DatasetOrder {
  /** Shuffles each pass. Default: as listed. */
  readonly shuffleSeed?: number | bigint | undefined;
  /** Only the first n tasks, before shuffling. Default: all. */
  readonly take?: number | undefined;
  /** Each task so many times in a row. Default 1. */
  readonly repeat?: number | undefined;
}

export type DatasetSettings = (JsonlDataset | SeedDataset) & DatasetOrder;

/** What a `Dataset` of this SDK is here: something that says how a job names it. */
export interface DatasetLike {
  toSpec(): unknown;
}

/** A function is only called when the job is submitted, never where the module is loaded to play episodes. */
export type DatasetSource =
  | DatasetLike
  | DatasetSettings
  | Promise<DatasetLike | DatasetSettings>
  | (() => DatasetLike | DatasetSettings | Promise<DatasetLike | DatasetSettings>);

/** The dataset as a job file names it. @throws ConfigError with paths below `path`. */
export async function datasetDocument(source: DatasetSource, path: string): Promise<JobDocument> {
  const given = await (typeof source === "function" ? source() : source);
  return readOrThrow("Dataset", isDataset(given) ? await given.toSpec() : given, path);
}

export function isDataset(value: unknown): value is DatasetLike {
  return typeof (value as { toSpec?: unknown } | null)?.toSpec === "function";
}

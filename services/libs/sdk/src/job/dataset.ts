// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { z } from "zod";

import type { JobDocument } from "./document.ts";

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

const big = z.union([z.int().min(0), z.bigint().min(0n), z.string().regex(/^\d+$/)]).transform(String);
const order = {
  shuffleSeed: big.optional(),
  take: big.optional(),
  repeat: z.int().min(1).optional(),
};
const dataset = z.union([
  z.strictObject({ jsonl: z.string().min(1), ...order }),
  z.strictObject({ seeds: z.strictObject({ first: big, count: big }), ...order }),
]);

/** The dataset as a job file names it. @throws ConfigError with paths below `path`. */
export async function datasetDocument(source: DatasetSource, path: string): Promise<JobDocument> {
  const given = await (typeof source === "function" ? source() : source);
  const settings: unknown = isDataset(given) ? await given.toSpec() : given;
  const result = dataset.safeParse(settings);
  if (result.success) return withoutUndefined(result.data);
  throw new ConfigError([{ path, reason: reasonOf(settings) }], { cause: result.error });
}

export function isDataset(value: unknown): value is DatasetLike {
  return typeof (value as { toSpec?: unknown } | null)?.toSpec === "function";
}

function reasonOf(value: unknown): string {
  const names = typeof value === "object" && value !== null ? Object.keys(value).join(", ") : typeof value;
  return `must be a dataset, { jsonl: "file" } or { seeds: { first, count } }, with shuffleSeed, take and repeat; has ${names}`;
}

function withoutUndefined(value: object): JobDocument {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined));
}

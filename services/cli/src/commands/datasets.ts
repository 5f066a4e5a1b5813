// SPDX-License-Identifier: Apache-2.0
/** `whet datasets …`: the tasks that this machine has by name. They are files: no runtime is needed. */
import { existsSync } from "node:fs";

import {
  Dataset,
  type DatasetInfo,
  datasetsFolder,
  DatasetStore,
  DEFAULT_SPLIT,
  type DatasetTask,
  passRateBetween,
  type SplitInfo,
} from "@whetstone/datasets";

import { exportDataset, readEvaluation } from "../datasets/dataset-files.ts";
import { badInput, CliError } from "../cli-error.ts";
import { formatBytes, formatCount, formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export interface SplitFlags extends CommonOptions {
  readonly split?: string;
}

const ROWS_SHOWN = 3;

const storeOf = ({ environment }: CommandContext): DatasetStore => new DatasetStore(datasetsFolder(environment));

export async function listDatasets(flags: CommonOptions, context: CommandContext): Promise<void> {
  const store = storeOf(context);
  const datasets = await store.list();
  if (flags.json === true) return context.terminal.json({ folder: store.folder, datasets });
  if (datasets.length === 0)
    return context.terminal.line(`no datasets in ${store.folder}; add one with \`whet datasets add <name> <file>\``);
  const rows = datasets.flatMap(({ name, splits }) => splits.map((split) => rowOf(name, split)));
  print(formatTable(["DATASET", "SPLIT", "TASKS", "SIZE", "ADDED", "DIGEST", "DESCRIPTION"], rows), context);
}

export interface AddFlags extends SplitFlags {
  readonly description?: string;
  readonly replace?: boolean;
}

export async function addDataset(name: string, file: string, flags: AddFlags, context: CommandContext): Promise<void> {
  if (!existsSync(file)) throw badInput([{ path: "<file>", reason: `${file} does not exist` }]);
  const split = flags.split ?? DEFAULT_SPLIT;
  await register(Dataset.fromFile(file, name), { name, split }, flags, context);
}

interface Target {
  readonly name: string;
  readonly split: string;
}

async function register(
  dataset: Dataset,
  { name, split }: Target,
  { replace, description, json }: AddFlags,
  context: CommandContext,
): Promise<SplitInfo> {
  const store = storeOf(context);
  if (replace !== true && (await store.exists(name, split)))
    throw new CliError("ALREADY_EXISTS", `dataset ${name} has a split ${split}; replace it with --replace`);
  await store.register(name, split, dataset, description === undefined ? {} : { description });
  const info = (await store.info(name))?.splits.find((known) => known.split === split) as SplitInfo;
  if (json === true) context.terminal.json({ name, ...info });
  else context.terminal.line(`${name}, split ${split}: ${formatCount(info.rows)} tasks in ${info.path}`);
  return info;
}

export async function showDataset(
  name: string,
  flags: SplitFlags & { readonly rows?: string },
  context: CommandContext,
): Promise<void> {
  const store = storeOf(context);
  const info = await found(store, name);
  const count = Number(flags.rows ?? ROWS_SHOWN);
  if (!Number.isSafeInteger(count) || count < 0)
    throw badInput([{ path: "--rows", reason: `must be a whole number of at least 0, not "${flags.rows}"` }]);
  const splits = info.splits.filter(({ split }) => flags.split === undefined || split === flags.split);
  if (splits.length === 0) throw noSplit(info, flags.split ?? "");
  const samples = await Promise.all(splits.map(({ split }) => firstOf(store.load(name, split), count)));
  if (flags.json === true)
    return context.terminal.json({ name, splits: splits.map((split, i) => ({ ...split, tasks: samples[i] })) });
  splits.forEach((split, i) => {
    print(splitLines(name, split, context), context);
    for (const task of samples[i] ?? []) context.terminal.line(`  ${JSON.stringify(task)}`);
  });
}

export async function removeDataset(name: string, flags: SplitFlags, context: CommandContext): Promise<void> {
  const store = storeOf(context);
  const info = await found(store, name);
  if (!(await store.remove(name, flags.split))) throw noSplit(info, flags.split ?? "");
  const gone = info.splits
    .map(({ split }) => split)
    .filter((split) => flags.split === undefined || split === flags.split);
  if (flags.json === true) return context.terminal.json({ name, removed: gone });
  context.terminal.line(`${name}: removed ${gone.join(", ")}; jobs that were submitted keep their tasks`);
}

export interface FilterFlags extends AddFlags {
  readonly eval: readonly string[];
  readonly min?: string;
  readonly max?: string;
  readonly as: string;
}

/** Curation: the tasks that evaluations found neither too easy nor too hard. */
export async function filterDataset(name: string, flags: FilterFlags, context: CommandContext): Promise<void> {
  const store = storeOf(context);
  const split = await splitOf(store, name, flags.split);
  const [low, high] = [shareOf("--min", flags.min, 0), shareOf("--max", flags.max, 1)];
  if (low > high) throw badInput([{ path: "--min", reason: `is above --max: ${low} and ${high}` }]);
  const keep = passRateBetween(await Promise.all(flags.eval.map(readEvaluation)), low, high);
  const before = (await found(store, name)).splits.find((known) => known.split === split)?.rows ?? 0;
  const description = `${name}/${split}, pass rate ${low} to ${high} in ${flags.eval.join(", ")}`;
  const target = { name: flags.as, split };
  const { rows } = await register(store.load(name, split).filter(keep), target, { description, ...flags }, context);
  if (flags.json !== true) context.terminal.line(`kept ${formatCount(rows)} of ${formatCount(before)}`);
}

export async function exportTo(name: string, file: string, flags: SplitFlags, context: CommandContext): Promise<void> {
  const store = storeOf(context);
  const split = await splitOf(store, name, flags.split);
  const tasks = await exportDataset(store.load(name, split), file);
  if (flags.json === true) context.terminal.json({ name, split, file, tasks });
  else context.terminal.line(`${formatCount(tasks)} tasks of ${name}, split ${split}, in ${file}`);
}

/** A split need not be named where there is one. */
async function splitOf(store: DatasetStore, name: string, wanted: string | undefined): Promise<string> {
  const info = await found(store, name);
  const splits = info.splits.map(({ split }) => split);
  const split = wanted ?? (splits.length === 1 ? splits[0] : DEFAULT_SPLIT);
  if (split !== undefined && splits.includes(split)) return split;
  throw noSplit(info, split ?? "");
}

async function found(store: DatasetStore, name: string): Promise<DatasetInfo> {
  const info = await store.info(name);
  if (info) return info;
  const names = (await store.list()).map((known) => known.name).join(", ");
  throw new CliError("NOT_FOUND", `there is no dataset ${name} in ${store.folder}; there are: ${names || "none"}`);
}

function noSplit({ name, splits }: DatasetInfo, split: string): CliError {
  const there = splits.map((known) => known.split).join(", ");
  return new CliError("NOT_FOUND", `dataset ${name} has no split ${split}; name one of ${there} with --split`);
}

function shareOf(path: string, text: string | undefined, ifNone: number): number {
  const value = text === undefined ? ifNone : text.trim() === "" ? NaN : Number(text);
  if (value >= 0 && value <= 1) return value;
  throw badInput([{ path, reason: `must be a pass rate from 0 to 1, not "${text}"` }]);
}

async function firstOf(dataset: Dataset, count: number): Promise<DatasetTask[]> {
  return count === 0 ? [] : dataset.take(count).toArray();
}

function rowOf(name: string, { split, rows, bytes, createdAt, digest, description = "" }: SplitInfo): string[] {
  return [name, split, formatCount(rows), formatBytes(bytes), dayOf(createdAt), digest.slice(0, 12), description];
}

function splitLines(name: string, split: SplitInfo, { terminal }: CommandContext): string[] {
  const head = `${terminal.paint("bold", name)}, split ${terminal.paint("bold", split.split)}`;
  const facts = `${formatCount(split.rows)} tasks, ${formatBytes(split.bytes)}, added ${dayOf(split.createdAt)}`;
  return [
    `${head}: ${facts}`,
    ...(split.description === undefined ? [] : [`  ${split.description}`]),
    terminal.paint("dim", `  ${split.path}  sha256 ${split.digest}`),
  ];
}

/** "2026-01-31T12:00:00.000Z" → "2026-01-31 12:00". */
function dayOf(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}

function print(lines: readonly string[], { terminal }: CommandContext): void {
  for (const line of lines) terminal.line(line);
}

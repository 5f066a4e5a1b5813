// SPDX-License-Identifier: Apache-2.0
/** `whet tasks …`: makes tasks, and proves them. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

import { createRng, parseOrThrow } from "@whetstone/core";
import { Dataset } from "@whetstone/datasets";
import { ProcessBackend } from "@whetstone/sandbox";
import {
  LIBRARY_PINS,
  type LibraryPin,
  LibraryPinSchema,
  LibraryStore,
  proveTask,
  SweTaskSchema,
} from "@whetstone/swe";
import { z } from "zod";

import { badInput, EXIT } from "../cli-error.ts";
import { librarySources } from "../tasks/library-sources.ts";
import { makeAll } from "../tasks/make-all.ts";
import { PackageCache, packagesFolder } from "../tasks/package-cache.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";

export interface MakeFlags extends CommonOptions {
  readonly out: string;
  readonly libraries?: string;
  readonly pins?: string;
  readonly count?: string;
  readonly pairs?: string;
  readonly seed?: string;
  readonly minutes?: string;
  readonly packages?: string;
}

export async function makeTaskFiles(kind: string, flags: MakeFlags, context: CommandContext): Promise<void> {
  if (kind !== "swe") throw badInput([{ path: "<kind>", reason: `there is no kind "${kind}"; there is: swe` }]);
  const options = {
    folder: resolve(flags.out),
    pins: chosen(await pinsOf(flags.pins), flags.libraries),
    count: numberOf("--count", flags.count, 40, { least: 1, most: 100_000, whole: true }),
    pairs: numberOf("--pairs", flags.pairs, 0.2, { least: 0, most: 1 }),
    seed: numberOf("--seed", flags.seed, 0, { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true }),
    minutes: numberOf("--minutes", flags.minutes, 60, { least: 0.1, most: 10_000 }),
  };
  await using backend = await ProcessBackend.start();
  const cache = new PackageCache(packagesFolder(flags.packages, context.environment), context.signal);
  const sources = librarySources(cache, context.signal);
  const say = (line: string): void => {
    if (flags.json !== true) context.terminal.line(line);
  };
  const made = await makeAll(options, { backend, sources, say, signal: context.signal });
  if (flags.json === true) return context.terminal.json(made);
  for (const { split, tasks, libraries, path } of made.files)
    context.terminal.line(`${split}: ${tasks} tasks of ${libraries} libraries in ${path}`);
}

export interface VerifyFlags extends CommonOptions {
  readonly libraries?: string;
  readonly sample?: string;
  readonly seed?: string;
}

export async function verifyTasks(
  file: string,
  flags: VerifyFlags,
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  if (!existsSync(file)) throw badInput([{ path: "<file>", reason: `${file} does not exist` }]);
  const all = await Dataset.fromFile(file, "swe").toArray();
  const sample = numberOf("--sample", flags.sample, all.length, { least: 1, most: 1_000_000, whole: true });
  const seed = numberOf("--seed", flags.seed, 0, { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true });
  await using backend = await ProcessBackend.start();
  await using libraries = new LibraryStore(resolve(flags.libraries ?? join(dirname(file), "libraries")), backend);
  const unsound: object[] = [];
  const tasks = createRng(seed).shuffle(all).slice(0, sample);
  for (const { id, payload } of tasks) {
    const task = parseOrThrow(SweTaskSchema, payload, id);
    const proof = await proveTask({ backend, libraries }, task, context.signal);
    if (proof.gold !== 1 || proof.empty !== 0) unsound.push({ id, ...proof });
    if (flags.json !== true) context.terminal.line(`${id}: its repair ${proof.gold}, nothing ${proof.empty}`);
  }
  if (unsound.length > 0) outcome.exitCode = EXIT.other;
  if (flags.json === true) return context.terminal.json({ tasks: tasks.length, unsound });
  context.terminal.line(`${tasks.length - unsound.length} of ${tasks.length} tasks are sound`);
}

async function pinsOf(file: string | undefined): Promise<readonly LibraryPin[]> {
  if (file === undefined) return LIBRARY_PINS;
  if (!existsSync(file)) throw badInput([{ path: "--pins", reason: `${file} does not exist` }]);
  return parseOrThrow(z.array(LibraryPinSchema).min(1), JSON.parse(await readFile(file, "utf8")), file);
}

function chosen(pins: readonly LibraryPin[], names: string | undefined): readonly LibraryPin[] {
  if (names === undefined) return pins;
  const wanted = names.split(",").map((name) => name.trim());
  const unknown = wanted.filter((name) => !pins.some((pin) => pin.name === name));
  if (unknown.length === 0) return pins.filter(({ name }) => wanted.includes(name));
  const known = pins.map(({ name }) => name).join(", ");
  throw badInput([{ path: "--libraries", reason: `${unknown.join(", ")} is not pinned; there are: ${known}` }]);
}

interface Range {
  readonly least: number;
  readonly most: number;
  readonly whole?: boolean;
}

function numberOf(path: string, text: string | undefined, ifNone: number, { least, most, whole }: Range): number {
  const value = text === undefined ? ifNone : text.trim() === "" ? NaN : Number(text);
  if (value >= least && value <= most && (whole !== true || Number.isInteger(value))) return value;
  throw badInput([{ path, reason: `must be a number from ${least} to ${most}, not "${text}"` }]);
}

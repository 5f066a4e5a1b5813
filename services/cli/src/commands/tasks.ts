// SPDX-License-Identifier: Apache-2.0
/** `whet tasks make`. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

import { parseOrThrow } from "@whetstone/core";
import { ProcessBackend } from "@whetstone/sandbox";
import { LIBRARY_PINS, type LibraryPin, LibraryPinSchema, NPM_LIBRARY_PINS } from "@whetstone/swe";
import { z } from "zod";

import { badInput } from "../cli-error.ts";
import { librarySources } from "../tasks/library-sources.ts";
import { makeAll } from "../tasks/make-all.ts";
import { PackageCache, packagesFolder } from "../tasks/package-cache.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { numberOf } from "./number-of.ts";
import { makeSearchFiles } from "./tasks-search.ts";

export interface MakeFlags extends CommonOptions {
  readonly out: string;
  readonly libraries?: string;
  readonly language?: string;
  readonly pins?: string;
  readonly count?: string;
  readonly pairs?: string;
  readonly seed?: string;
  readonly heldout?: string;
  readonly hops?: string;
  readonly minutes?: string;
  readonly packages?: string;
}

export async function makeTaskFiles(kind: string, flags: MakeFlags, context: CommandContext): Promise<void> {
  if (kind === "search") return await makeSearchFiles(flags, context);
  if (kind !== "swe")
    throw badInput([{ path: "<kind>", reason: `there is no kind "${kind}"; there are: swe, search` }]);
  for (const path of ["heldout", "hops"] as const)
    if (flags[path] !== undefined) throw badInput([{ path: `--${path}`, reason: "is of kind search, not of swe" }]);
  const options = {
    folder: resolve(flags.out),
    pins: await pinsOf(flags),
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

const BUILT_IN = { python: LIBRARY_PINS, javascript: NPM_LIBRARY_PINS } as const;

async function pinsOf({ pins: file, libraries, language = "python" }: MakeFlags): Promise<readonly LibraryPin[]> {
  if (!(language in BUILT_IN))
    throw badInput([{ path: "--language", reason: `there is no "${language}"; there are: python, javascript` }]);
  if (file !== undefined) return chosen(await readPins(file), libraries);
  if (libraries !== undefined) return chosen([...LIBRARY_PINS, ...NPM_LIBRARY_PINS], libraries);
  return BUILT_IN[language as keyof typeof BUILT_IN];
}

async function readPins(file: string): Promise<readonly LibraryPin[]> {
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

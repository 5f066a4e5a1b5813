// SPDX-License-Identifier: Apache-2.0
/** The files of a data set that is pushed: one a split. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { Dataset, datasetsFolder, DatasetStore, DEFAULT_SPLIT } from "@whetstone/datasets";

import { badInput, CliError } from "../cli-error.ts";
import { existing, listFiles, type LocalFile } from "./local-files.ts";

export interface DatasetSource {
  readonly name: string;
  /** A folder of splits, or a file of rows. Undefined: the data set of this name in this machine's registry. */
  readonly path: string | undefined;
  readonly split: string | undefined;
}

/** @param stack  keeps what a file of rows is converted to */
export async function datasetFiles(
  { name, path, split }: DatasetSource,
  environment: NodeJS.ProcessEnv,
  stack: AsyncDisposableStack,
): Promise<LocalFile[]> {
  if (path === undefined) return splitsOf(new DatasetStore(datasetsFolder(environment)), name, split);
  if ((await existing(resolve(path))).isDirectory()) {
    if (split !== undefined)
      throw badInput([{ path: "--split", reason: `${path} is a folder: name the split's file` }]);
    return listFiles(resolve(path));
  }
  const folder = await mkdtemp(join(tmpdir(), "whet-push-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const store = new DatasetStore(folder);
  await store.register(name, split ?? DEFAULT_SPLIT, Dataset.fromFile(resolve(path), name));
  return splitsOf(store, name, undefined);
}

async function splitsOf(store: DatasetStore, name: string, wanted: string | undefined): Promise<LocalFile[]> {
  const found = await store.info(name);
  if (!found)
    throw new CliError("NOT_FOUND", `there is no dataset ${name} in ${store.folder}: name a file or a folder too`);
  const splits = found.splits.filter(({ split }) => (wanted ?? split) === split);
  if (splits.length === 0) throw badInput([{ path: "--split", reason: `${name} has no split ${wanted}` }]);
  return splits.map(({ split, path, bytes }) => ({ path: `${split}.jsonl`, place: path, size: bytes }));
}

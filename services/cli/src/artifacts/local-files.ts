// SPDX-License-Identifier: Apache-2.0
/** Files of this machine that become an artifact, and their digests. */
import { createHash } from "node:crypto";
import { createReadStream, type Stats } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";

import { artifactFileFault } from "@whetstone/core";

import { badInput } from "../cli-error.ts";

export interface LocalFile {
  /** In the artifact, with "/" between names. */
  readonly path: string;
  /** On this machine. */
  readonly place: string;
  readonly size: number;
}

export type HashedFile = LocalFile & { readonly sha256: string };

/** As many as the contract takes. */
const MAX_FILES = 10_000;
const READ_BYTES = 1024 * 1024;

/** All files of a folder, or the one file. Links to files are followed: a Hugging Face cache is made of them. */
export async function listFiles(root: string): Promise<LocalFile[]> {
  const stats = await existing(root);
  if (stats.isFile()) return [{ path: basename(root), place: root, size: stats.size }];
  const files: LocalFile[] = [];
  await walk(root, "", files);
  if (files.length === 0) throw badInput([{ path: root, reason: "has no files" }]);
  return files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

export async function existing(path: string): Promise<Stats> {
  const stats = await stat(path).catch(() => undefined);
  if (stats) return stats;
  throw badInput([{ path, reason: "does not exist or cannot be read" }]);
}

async function walk(folder: string, below: string, files: LocalFile[]): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const [place, path] = [join(folder, entry.name), `${below}${entry.name}`];
    if (entry.isDirectory()) {
      await walk(place, `${path}/`, files);
      continue;
    }
    const stats = await stat(place).catch(() => undefined);
    const fault = stats?.isFile() ? artifactFileFault(path) : "is no ordinary file, nor a link to one";
    if (!stats || fault !== undefined) throw badInput([{ path: place, reason: fault ?? "cannot be read" }]);
    files.push({ path, place, size: stats.size });
    if (files.length > MAX_FILES)
      throw badInput([{ path: folder, reason: `has more than ${MAX_FILES} files: pack them into archives` }]);
  }
}

/** @param onBytes  hears of every piece that was read */
export async function hashFile(place: string, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(place, { highWaterMark: READ_BYTES, signal })) {
    hash.update(chunk as Buffer);
    onBytes((chunk as Buffer).length);
  }
  return hash.digest("hex");
}

// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { link, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { artifactFolder, type ArtifactKindName, artifactNameFile } from "@whetstone/core";

// On the data volume:
//   artifacts/pushes/<digest>/          a push: manifest.json and what has come of files/
//   artifacts/sha256/<digest>/          an artifact: manifest.json and files/; it appears whole, by a rename, and never changes
//   artifacts/names/<kind>/<name>.json  what a name has
//   artifacts/removed/                  what is being deleted

export interface StoredFile {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
}

export interface Manifest {
  readonly files: readonly StoredFile[];
}

export interface NameRecord {
  readonly digest: string;
  readonly createdAt: string;
}

export class ArtifactLayout {
  readonly root: string;
  readonly #dataPath: string;

  constructor(dataPath: string) {
    this.#dataPath = dataPath;
    this.root = join(dataPath, "artifacts");
  }

  pushes = (): string => join(this.root, "pushes");
  push = (digest: string): string => join(this.pushes(), digest);
  /** The folder that jobs are given. */
  files = (digest: string): string => artifactFolder(this.#dataPath, digest);
  contents = (): string => dirname(this.content("any"));
  content = (digest: string): string => dirname(this.files(digest));
  name = (kind: ArtifactKindName, name: string): string => artifactNameFile(this.#dataPath, kind, name);
  names = (kind: ArtifactKindName): string => dirname(this.name(kind, "any"));
  removed = (): string => join(this.root, "removed");

  /** Undefined: there is no such artifact, or push. */
  manifest(folder: string): Promise<Manifest | undefined> {
    return readJson<Manifest>(join(folder, "manifest.json"));
  }

  /** Moves the folder away first, so that it is gone at once, however long its files take. */
  async discard(folder: string): Promise<void> {
    await mkdir(this.removed(), { recursive: true });
    const place = join(this.removed(), randomBytes(8).toString("hex"));
    await rename(folder, place).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
    });
    await this.sweep();
  }

  /** Also what a process that was killed had begun to delete. */
  async sweep(): Promise<void> {
    for (const name of await readdir(this.removed()).catch((): string[] => []))
      await rm(join(this.removed(), name), { recursive: true, force: true });
  }
}

export async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  });
  return text === undefined ? undefined : (JSON.parse(text) as T);
}

/**
 * Writes all of it or nothing.
 * @returns false: the file is there already, and `replace` is false. Of several who write a new file at once, one gets true
 */
export async function writeJson(path: string, value: unknown, replace = true): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true });
  const draft = `${path}.${randomBytes(6).toString("hex")}.draft`;
  try {
    await writeFile(draft, JSON.stringify(value), { flush: true });
    await (replace ? rename(draft, path) : link(draft, path));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

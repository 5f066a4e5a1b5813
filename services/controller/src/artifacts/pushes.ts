// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { artifactDigest, artifactFileFault, ConfigError, WhetstoneError } from "@whetstone/core";
import { full, isFull, requireRoom } from "./disk-space.ts";
import { type ArtifactLayout, type StoredFile, writeJson } from "./layout.ts";

// P1: a file of a push grows only at its end, so its length says where to go on. P2: an artifact appears by one rename, after
// every byte of it was read again and its digest is right. P3: who is killed anywhere leaves a push that goes on or is swept.

/** A push that nobody has written to for so long was given up. So were files that got no name for so long. */
const ABANDONED_MS = 24 * 3_600_000;
/** As many pushes may go on at the same time. */
const MAX_PUSHES = 64;
const READ_BYTES = 1024 * 1024;

export interface Begun {
  readonly digest: string;
  readonly offsets: readonly number[];
  readonly complete: boolean;
}

export class Pushes {
  readonly #layout: ArtifactLayout;
  /** Sizes of the files of pushes that go on: a manifest is not read again for every chunk. */
  readonly #sizes = new Map<string, ReadonlyMap<string, number>>();

  constructor(layout: ArtifactLayout) {
    this.#layout = layout;
  }

  async begin(files: readonly StoredFile[]): Promise<Begun> {
    refuseBadFiles(files);
    const digest = artifactDigest(files);
    if (await this.#isThere(digest)) return { digest, offsets: files.map(({ size }) => size), complete: true };
    await this.sweep();
    const folder = join(this.#layout.push(digest), "files");
    const offsets = await Promise.all(files.map(({ path }) => lengthOf(join(folder, path))));
    await mkdir(this.#layout.root, { recursive: true });
    const missing = files.reduce((sum, { size }, i) => sum + Math.max(0, size - (offsets[i] ?? 0)), 0);
    await requireRoom(this.#layout.root, missing);
    await this.#cleanly(digest, () => this.#prepare(digest, files));
    return { digest, offsets, complete: false };
  }

  /** @returns where to go on; nothing is written that is not at the file's end (P1) */
  async write(digest: string, path: string, offset: number, content: Uint8Array): Promise<number> {
    const size = (await this.#sizesOf(digest)).get(path);
    if (size === undefined) throw new WhetstoneError("INVALID_ARGUMENT", `path: "${path}" is no file of this push`);
    if (offset + content.length > size)
      throw new WhetstoneError("INVALID_ARGUMENT", `content: "${path}" would be longer than its ${size} bytes`);
    return this.#cleanly(digest, () => this.#append(digest, path, offset, content));
  }

  /** Yields the bytes that were read again; after the last the artifact is there (P2). */
  async *finish(digest: string): AsyncGenerator<number> {
    const folder = this.#layout.push(digest);
    const manifest = await this.#layout.manifest(folder);
    if (!manifest) {
      if (await this.#layout.manifest(this.#layout.content(digest))) return;
      throw gone(digest);
    }
    let verified = 0;
    for (const file of manifest.files) {
      for await (const bytes of this.#verify(folder, file)) yield verified + bytes;
      verified += file.size;
    }
    await this.#publish(digest);
  }

  async abort(digest: string): Promise<void> {
    this.#sizes.delete(digest);
    await this.#layout.discard(this.#layout.push(digest));
  }

  /** Removes pushes that were given up. @throws RESOURCE_EXHAUSTED when too many are left */
  async sweep(): Promise<void> {
    await this.#layout.sweep();
    let left = 0;
    for (const digest of await readdir(this.#layout.pushes()).catch((): string[] => [])) {
      const folder = this.#layout.push(digest);
      if (await isAbandoned(folder)) await this.abort(digest);
      else left += 1;
    }
    if (left > MAX_PUSHES)
      throw new WhetstoneError("RESOURCE_EXHAUSTED", `${left} pushes go on already; try again later`);
  }

  /** Whoever is told that the files are there has a day to name them. */
  async #isThere(digest: string): Promise<boolean> {
    const place = this.#layout.content(digest);
    const isThere = (await this.#layout.manifest(place)) !== undefined;
    if (isThere) await touch(place);
    return isThere;
  }

  async #prepare(digest: string, files: readonly StoredFile[]): Promise<void> {
    const folder = this.#layout.push(digest);
    const folders = new Set(files.map(({ path }) => dirname(join(folder, "files", path))));
    for (const each of folders) await mkdir(each, { recursive: true });
    for (const { path, size } of files)
      if (size === 0) await (await open(join(folder, "files", path), "w"))[Symbol.asyncDispose]();
    await writeJson(join(folder, "manifest.json"), { files });
  }

  async #sizesOf(digest: string): Promise<ReadonlyMap<string, number>> {
    const known = this.#sizes.get(digest);
    if (known) return known;
    const manifest = await this.#layout.manifest(this.#layout.push(digest));
    if (!manifest) throw gone(digest);
    const sizes = new Map(manifest.files.map(({ path, size }) => [path, size]));
    if (this.#sizes.size >= MAX_PUSHES) this.#sizes.clear();
    this.#sizes.set(digest, sizes);
    return sizes;
  }

  async #append(digest: string, path: string, offset: number, content: Uint8Array): Promise<number> {
    const folder = this.#layout.push(digest);
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;
    await using file = await open(join(folder, "files", path), flags, 0o644).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error; // Somebody aborted the push.
      this.#sizes.delete(digest);
      throw gone(digest);
    });
    const { size } = await file.stat();
    if (offset !== size) return size;
    await writeAll(file, content, offset);
    await touch(folder);
    return offset + content.length;
  }

  async *#verify(folder: string, { path, size, sha256 }: StoredFile): AsyncGenerator<number> {
    const place = join(folder, "files", path);
    const there = await lengthOf(place);
    if (there !== size)
      throw new WhetstoneError(
        "FAILED_PRECONDITION",
        `"${path}" has ${there} of its ${size} bytes: push it to its end`,
      );
    const hash = createHash("sha256");
    let read = 0;
    for await (const chunk of createReadStream(place, { highWaterMark: READ_BYTES })) {
      hash.update(chunk as Buffer);
      yield (read += (chunk as Buffer).length);
    }
    if (hash.digest("hex") === sha256) return;
    await rm(place, { force: true });
    const why = "what arrived has another SHA-256 than was announced: it changed while it was pushed, or was damaged";
    throw new WhetstoneError("DATA_LOSS", `"${path}": ${why}. Push it again`);
  }

  async #publish(digest: string): Promise<void> {
    const [folder, place] = [this.#layout.push(digest), this.#layout.content(digest)];
    await syncFolder(join(folder, "files"));
    await mkdir(dirname(place), { recursive: true });
    await rename(folder, place).catch(async (error: NodeJS.ErrnoException) => {
      const isOthers = error.code === "ENOTEMPTY" || error.code === "EEXIST" || error.code === "ENOENT";
      if (!isOthers || !(await this.#layout.manifest(place))) throw error;
      await this.abort(digest); // Somebody else pushed the same.
    });
    this.#sizes.delete(digest);
  }

  /** Removes the push when the disk is full: nothing half-written stays. */
  async #cleanly<T>(digest: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isFull(error)) throw error;
      await this.abort(digest);
      throw full("is full, and nothing of the push is left on it");
    }
  }
}

/** Whether a push, or an artifact without a name, was left alone for too long. */
export async function isAbandoned(folder: string): Promise<boolean> {
  const stats = await stat(join(folder, "manifest.json")).catch(() => stat(folder).catch(() => undefined));
  return stats !== undefined && Date.now() - stats.mtimeMs > ABANDONED_MS;
}

async function touch(folder: string): Promise<void> {
  const now = new Date();
  await utimes(join(folder, "manifest.json"), now, now);
}

function refuseBadFiles(files: readonly StoredFile[]): void {
  const paths = new Set<string>();
  files.forEach(({ path }, i) => {
    const fault = artifactFileFault(path) ?? (paths.has(path) ? `"${path}" is there twice` : undefined);
    if (fault !== undefined) throw new ConfigError([{ path: `files[${i}].path`, reason: fault }]);
    paths.add(path);
  });
  files.forEach(({ path }, i) => {
    for (let above = dirname(path); above !== "."; above = dirname(above))
      if (paths.has(above))
        throw new ConfigError([
          { path: `files[${i}].path`, reason: `"${above}" is a file, and a folder of "${path}"` },
        ]);
  });
}

async function lengthOf(path: string): Promise<number> {
  const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  });
  return stats?.size ?? 0;
}

async function writeAll(file: FileHandle, content: Uint8Array, offset: number): Promise<void> {
  for (let done = 0; done < content.length;)
    done += (await file.write(content, done, content.length - done, offset + done)).bytesWritten;
}

/** What a rename makes visible has to be on the disk first. */
async function syncFolder(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncFolder(path);
    else await sync(path);
  }
  await sync(folder);
}

async function sync(path: string): Promise<void> {
  await using handle = await open(path, "r");
  await handle.sync();
}

function gone(digest: string): WhetstoneError {
  return new WhetstoneError("NOT_FOUND", `there is no push of sha256:${digest}: it was given up, begin it again`);
}

// SPDX-License-Identifier: Apache-2.0
import { readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { WhetstoneError } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import { buildIndex, digestOf } from "./build-index.ts";
import { BuildLock, isRunning } from "./build-lock.ts";
import { CorpusIndex, type CorpusIndexOptions, DamagedIndexError } from "./corpus-index.ts";

/** Longest wait for an index, with its build. */
export const BUILD_MS = 30 * 60_000;
/** Indexes that are open at once; the one that was used longest ago is closed. */
const MAX_OPEN = 8;
/** What is still read of an index that left the store. */
const LINGER_MS = 60_000;
/** Between the digest and the builder's process id, in the name of a folder that is not finished. */
const BUILDING = ".building-";

export interface IndexStoreOptions extends CorpusIndexOptions {
  /** Indexes by the digest of their corpus. Made when it is first needed. */
  readonly folder: string;
  /** Hears of an index that is damaged, by name, before it is built again. */
  readonly onDamage?: ((message: string) => void) | undefined;
}

/** Indexes of corpora on disk, each built once for a corpus' content, whoever asks for it, and shared by all episodes. */
export class IndexStore implements AsyncDisposable {
  readonly #options: IndexStoreOptions;
  readonly #opened = new Map<string, Promise<CorpusIndex>>();
  readonly #leaving = new Map<NodeJS.Timeout, CorpusIndex>();
  readonly #end = new AbortController();

  constructor(options: IndexStoreOptions) {
    this.#options = options;
  }

  /** Of a corpus file, built if need be; a file that has changed has another one. @throws EpisodeError TASK for a broken corpus */
  async get(corpus: string): Promise<CorpusIndex> {
    const found = await stat(corpus).catch((error: unknown) => {
      throw new EpisodeError("TASK", `corpus ${corpus}: ${WhetstoneError.from(error).message}`, { cause: error });
    });
    if (!found.isFile()) throw new EpisodeError("TASK", `corpus ${corpus} is not a file`);
    const { mtimeMs, size } = found;
    const key = `${corpus}\n${mtimeMs}\n${size}`;
    const opening = this.#opened.get(key) ?? this.#open(corpus);
    this.#opened.delete(key); // Put again at the end: the map's order is that of use.
    this.#opened.set(key, opening);
    opening.catch(() => this.#opened.delete(key));
    this.#closeOldest();
    return await opening;
  }

  async #open(corpus: string): Promise<CorpusIndex> {
    const signal = AbortSignal.any([this.#end.signal, AbortSignal.timeout(BUILD_MS)]);
    const digest = await digestOf(corpus, signal);
    const folder = join(this.#options.folder, digest);
    const found = await this.#openWhole(folder, signal, () => undefined);
    if (found !== undefined) return found;
    await using _lock = await BuildLock.take(this.#options.folder, digest, signal);
    const meanwhile = await this.#openWhole(folder, signal, (message) => this.#options.onDamage?.(message));
    if (meanwhile !== undefined) return meanwhile;
    await this.#removeLeftovers(digest);
    const unfinished = `${folder}${BUILDING}${process.pid}`;
    try {
      await buildIndex({ corpus, digest, folder: unfinished, signal });
      await rm(folder, { recursive: true, force: true }); // The damaged one.
      await rename(unfinished, folder);
    } finally {
      await rm(unfinished, { recursive: true, force: true });
    }
    return await CorpusIndex.open(folder, this.#options, signal);
  }

  /** Of builders that were killed. */
  async #removeLeftovers(digest: string): Promise<void> {
    const { folder } = this.#options;
    for (const name of await readdir(folder)) {
      const [of, pid] = name.split(BUILDING);
      if (of === digest && pid !== undefined && (Number(pid) === process.pid || !isRunning(Number(pid))))
        await rm(join(folder, name), { recursive: true, force: true });
    }
  }

  /** Undefined: there is none, or it is damaged and has to be built again. */
  async #openWhole(
    folder: string,
    signal: AbortSignal,
    onDamage: (message: string) => void,
  ): Promise<CorpusIndex | undefined> {
    if ((await stat(folder).catch(() => undefined)) === undefined) return undefined;
    try {
      return await CorpusIndex.open(folder, this.#options, signal);
    } catch (error) {
      if (!(error instanceof DamagedIndexError)) throw error;
      onDamage(error.message);
      return undefined;
    }
  }

  #closeOldest(): void {
    for (const [key, opening] of this.#opened) {
      if (this.#opened.size <= MAX_OPEN) return;
      this.#opened.delete(key);
      opening.then(
        (index) => this.#closeLater(index),
        () => undefined,
      );
    }
  }

  /** From when it is open: whoever waited for its build has yet to read it. */
  #closeLater(index: CorpusIndex): void {
    const timer = setTimeout(
      () => {
        this.#leaving.delete(timer);
        void index[Symbol.asyncDispose]();
      },
      this.#end.signal.aborted ? 0 : LINGER_MS,
    ).unref();
    this.#leaving.set(timer, index);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort(new WhetstoneError("CANCELLED", "the store of indexes closes"));
    const indexes = await Promise.allSettled(this.#opened.values());
    this.#opened.clear();
    for (const index of indexes) if (index.status === "fulfilled") await index.value[Symbol.asyncDispose]();
    for (const [timer, index] of this.#leaving) {
      clearTimeout(timer);
      await index[Symbol.asyncDispose]();
    }
    this.#leaving.clear();
  }
}

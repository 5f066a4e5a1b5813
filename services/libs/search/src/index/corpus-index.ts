// SPDX-License-Identifier: Apache-2.0
import { type FileHandle, open, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { Gate, WhetstoneError } from "@whetstone/core";
import type { CorpusDocument, Found } from "@whetstone/tools";
import { Bm25, type Bm25Options, type QueryWord } from "./bm25.ts";
import { byCodeUnits, digestOf } from "./build-index.ts";
import { ByteCache } from "./byte-cache.ts";
import { FILES, LENGTHS, META, Meta, PASSAGE_STARTS, PASSAGES, POSTINGS, WORD_STARTS, WORDS } from "./layout.ts";
import { wordsOf } from "./words.ts";

export interface SearchOptions extends Bm25Options {
  readonly signal?: AbortSignal | undefined;
}

export interface CorpusIndexOptions {
  /** Of postings and dictionary blocks that are kept in memory. Default 64 MiB. */
  readonly cacheBytes?: number | undefined;
}

/** What is wrong with a folder that should be an index; it can be built again. */
export class DamagedIndexError extends WhetstoneError {
  constructor(folder: string, reason: string) {
    super("DATA_LOSS", `index ${folder}: ${reason}`);
  }
}

/** Further words of a query are not looked for. */
const MAX_QUERY_WORDS = 64;
/** Queries that read from the disk at once; the others wait, as long as their callers do. */
const READS_AT_ONCE = 8;
const MAX_WAITING = 4096;

interface WordEntry {
  readonly passages: number;
  readonly start: number;
  readonly bytes: number;
}

interface Opened {
  readonly meta: Meta;
  readonly files: Readonly<Record<string, FileHandle>>;
  readonly steps: readonly (readonly [string, number])[];
  readonly bm25: Bm25;
}

/** An index on disk: memory holds 16 bytes a passage, every 64th word, and the cache; all else is read by its position. */
export class CorpusIndex implements AsyncDisposable {
  readonly meta: Meta;
  readonly #files: Readonly<Record<string, FileHandle>>;
  readonly #steps: readonly (readonly [string, number])[];
  readonly #bm25: Bm25;
  readonly #cache: ByteCache<string>;
  readonly #reads = new Gate(READS_AT_ONCE, { maxQueued: MAX_WAITING });

  private constructor({ meta, files, steps, bm25 }: Opened, cacheBytes: number) {
    this.meta = meta;
    this.#files = files;
    this.#steps = steps;
    this.#bm25 = bm25;
    this.#cache = new ByteCache(cacheBytes);
  }

  /** Reads every file once, to compare its digest. @throws DamagedIndexError naming the file */
  static async open(folder: string, options: CorpusIndexOptions = {}, signal?: AbortSignal): Promise<CorpusIndex> {
    const meta = await readMeta(folder);
    for (const name of FILES) await checkFile(folder, name, meta, signal);
    const lengths = await readFile(join(folder, LENGTHS));
    const steps = JSON.parse(await readFile(join(folder, WORD_STARTS), "utf8")) as [string, number][];
    const bm25 = new Bm25(numbers(lengths), meta.length / meta.passages);
    await using opened = new AsyncDisposableStack();
    const files: Record<string, FileHandle> = {};
    for (const name of [PASSAGES, PASSAGE_STARTS, POSTINGS, WORDS]) {
      const file = await open(join(folder, name));
      opened.defer(() => file.close());
      files[name] = file;
    }
    opened.move();
    return new CorpusIndex({ meta, files, steps, bm25 }, options.cacheBytes ?? 64 * 2 ** 20);
  }

  get size(): number {
    return this.meta.passages;
  }

  /** Best first, at most `limit`; the same query always gives the same answer. */
  async search(query: string, limit: number, options: SearchOptions = {}): Promise<Found[]> {
    return await this.#reads.run(async () => {
      const best = this.#bm25.best(await this.#queryWords(query), limit, options);
      return await Promise.all(
        best.map(async ({ passage, score }) => ({ document: await this.#passage(passage), score })),
      );
    }, options.signal);
  }

  async #queryWords(query: string): Promise<QueryWord[]> {
    const weights = new Map<string, number>();
    for (const word of wordsOf(query)) weights.set(word, (weights.get(word) ?? 0) + 1);
    const found: QueryWord[] = [];
    for (const [word, weight] of [...weights].slice(0, MAX_QUERY_WORDS)) {
      const entry = await this.#lookUp(word);
      if (entry === undefined) continue;
      const postings = await this.#cache.get(`p${entry.start}`, () => this.#read(POSTINGS, entry.start, entry.bytes));
      found.push({ postings, passages: entry.passages, weight });
    }
    return found;
  }

  async #lookUp(word: string): Promise<WordEntry | undefined> {
    const step = lastAtMost(this.#steps, word);
    if (step < 0) return undefined;
    const start = this.#steps[step]?.[1] ?? 0;
    const end = this.#steps[step + 1]?.[1] ?? this.meta.files[WORDS].bytes;
    const block = Buffer.from(
      await this.#cache.get(`w${step}`, () => this.#read(WORDS, start, end - start)),
    ).toString();
    const line = block.split("\n").find((one) => one.startsWith(`${word}\t`));
    if (line === undefined) return undefined;
    const [, passages, at, bytes] = line.split("\t").map(Number);
    return { passages: passages as number, start: at as number, bytes: bytes as number };
  }

  async #passage(number: number): Promise<CorpusDocument> {
    const [start = 0, end = 0] = new Float64Array(
      new Uint8Array(await this.#read(PASSAGE_STARTS, number * 8, 16)).buffer,
    );
    return JSON.parse(Buffer.from(await this.#read(PASSAGES, start, end - start)).toString()) as CorpusDocument;
  }

  async #read(name: string, start: number, length: number): Promise<Uint8Array> {
    const buffer = new Uint8Array(length);
    for (let at = 0; at < length;) {
      const read = await (this.#files[name] as FileHandle).read(buffer, at, length - at, start + at);
      if (read.bytesRead === 0) throw new WhetstoneError("DATA_LOSS", `${name} ends before ${start + length}`);
      at += read.bytesRead;
    }
    return buffer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Object.values(this.#files).map((file) => file.close()));
  }
}

async function readMeta(folder: string): Promise<Meta> {
  const text = await readFile(join(folder, META), "utf8").catch(() => undefined);
  if (text === undefined) throw new DamagedIndexError(folder, `it has no ${META}: its build was not finished`);
  try {
    return Meta.parse(JSON.parse(text));
  } catch {
    throw new DamagedIndexError(folder, `${META} is not one of this version`);
  }
}

async function checkFile(
  folder: string,
  name: (typeof FILES)[number],
  meta: Meta,
  signal?: AbortSignal,
): Promise<void> {
  const path = join(folder, name);
  const { bytes, sha256 } = meta.files[name];
  const size = await stat(path).then(
    (found) => found.size,
    () => undefined,
  );
  if (size === undefined) throw new DamagedIndexError(folder, `${name} is missing`);
  if (size !== bytes) throw new DamagedIndexError(folder, `${name} has ${size} bytes instead of ${bytes}`);
  if ((await digestOf(path, signal)) !== sha256)
    throw new DamagedIndexError(folder, `${name} is damaged: its digest differs`);
}

function numbers(bytes: Buffer): Uint32Array {
  return new Uint32Array(new Uint8Array(bytes).buffer);
}

/** The last step whose word is not behind this one; -1: all are. */
function lastAtMost(steps: readonly (readonly [string, number])[], word: string): number {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (byCodeUnits(steps[middle]?.[0] ?? "", word) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// SPDX-License-Identifier: Apache-2.0
import { readFile, stat } from "node:fs/promises";
import { WhetstoneError } from "@whetstone/core";
import MiniSearch from "minisearch";
import { type Awaitable, EpisodeError, type StepOptions } from "@whetstone/sdk";

export interface CorpusDocument {
  readonly id: string;
  readonly title?: string | undefined;
  readonly text: string;
}

export interface Found {
  readonly document: CorpusDocument;
  /** BM25, or what a server says; higher is better. */
  readonly score: number;
}

/** What a search can ask: documents of this process, an index on disk, a server. */
export interface Searcher {
  /** Best first, at most `limit`. What fails here is never the model's fault. */
  search(query: string, limit: number, options?: StepOptions): Awaitable<readonly Found[]>;
}

/** Documents indexed by their words (BM25+), unchanging once made, so that any number of episodes may share it. */
export class Corpus implements Searcher {
  readonly #documents: ReadonlyMap<string, CorpusDocument>;
  readonly #index: MiniSearch<CorpusDocument>;

  /** @throws WhetstoneError TASK_INVALID for two documents of one id. */
  constructor(documents: readonly CorpusDocument[]) {
    this.#documents = new Map(documents.map((document) => [document.id, document]));
    if (this.#documents.size !== documents.length) {
      throw new WhetstoneError("TASK_INVALID", "corpus: two documents have the same id");
    }
    this.#index = new MiniSearch<CorpusDocument>({ fields: ["title", "text"], searchOptions: { boost: { title: 2 } } });
    this.#index.addAll(documents);
  }

  get size(): number {
    return this.#documents.size;
  }

  /** Best first; ties by id, so that the same query always gives the same answer. */
  search(query: string, limit: number): Found[] {
    const hits = this.#index.search(query).map(({ id, score }) => ({ id: id as string, score }));
    hits.sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
    return hits
      .slice(0, limit)
      .map(({ id, score }) => ({ document: this.#documents.get(id) as CorpusDocument, score }));
  }
}

/**
 * Reads a JSONL file, one `{"id", "title"?, "text"}` a line. Lines without an id are named by their number.
 * @throws EpisodeError TASK for a file that is missing or broken.
 */
export async function loadCorpus(path: string): Promise<Corpus> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new EpisodeError("TASK", `corpus ${path}: ${WhetstoneError.from(error).message}`, { cause: error });
  });
  const lines = text.split("\n").map((line, i) => ({ line, number: i + 1 }));
  const documents = lines
    .filter(({ line }) => line.trim() !== "")
    .map(({ line, number }) => parseLine(path, line, number));
  return new Corpus(documents);
}

function parseLine(path: string, line: string, number: number): CorpusDocument {
  try {
    const { id = String(number), title, text } = JSON.parse(line) as Partial<Record<string, unknown>>;
    if (typeof id !== "string" || typeof text !== "string") throw new Error('needs "id" and "text", both texts');
    return { id, text, ...(typeof title === "string" ? { title } : {}) };
  } catch (error) {
    throw new EpisodeError("TASK", `corpus ${path}, line ${number}: ${WhetstoneError.from(error).message}`);
  }
}

/** Keeps the newest corpora that were read, so that a file is read and indexed once and not once an episode. */
export class CorpusCache {
  readonly #capacity: number;
  readonly #loaded = new Map<string, Promise<Corpus>>();

  constructor(capacity = 4) {
    this.#capacity = capacity;
  }

  /** A file that has changed is read again. @throws EpisodeError TASK */
  async get(path: string): Promise<Corpus> {
    const { mtimeMs, size } = await stat(path).catch((error: unknown) => {
      throw new EpisodeError("TASK", `corpus ${path}: ${WhetstoneError.from(error).message}`, { cause: error });
    });
    const key = `${path}\n${mtimeMs}\n${size}`;
    const loading = this.#loaded.get(key) ?? loadCorpus(path);
    this.#loaded.delete(key); // Put again at the end: the map's order is that of use.
    this.#loaded.set(key, loading);
    loading.catch(() => this.#loaded.delete(key));
    for (const oldest of this.#loaded.keys()) {
      if (this.#loaded.size <= this.#capacity) break;
      this.#loaded.delete(oldest);
    }
    return loading;
  }
}

// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { EpisodeError } from "@whetstone/sdk";
import type { CorpusDocument } from "@whetstone/tools";
import { FileWriter } from "./file-writer.ts";
import {
  FORMAT,
  LENGTHS,
  META,
  type Meta,
  PASSAGE_STARTS,
  PASSAGES,
  POSTINGS,
  WORD_STARTS,
  WORDS,
  WORDS_STEP,
} from "./layout.ts";
import { readPassages } from "./passages.ts";
import { PostingRuns } from "./posting-runs.ts";
import { wordsOf } from "./words.ts";

/** Passages of one corpus: places are float64, passage numbers 31 bits; the lengths of all stay in memory. */
const MAX_PASSAGES = 50_000_000;

/** SHA-256 of a file, lower-case hex. */
export async function digestOf(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  const input = createReadStream(path, { highWaterMark: 1 << 20, ...(signal && { signal }) });
  for await (const chunk of input) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** More than a passage of the longest text can have different words. */
const RUN_POSTINGS = 4_000_000;

export interface BuildOptions {
  readonly corpus: string;
  /** SHA-256 of the corpus. */
  readonly digest: string;
  /** Made by the build. */
  readonly folder: string;
  readonly signal?: AbortSignal | undefined;
  /** Postings held in memory, 12 bytes each. Default 4,000,000. */
  readonly runPostings?: number | undefined;
}

interface Dictionary {
  readonly ids: Map<string, number>;
  /** Passages that have the word of this number. */
  readonly passages: number[];
}

/**
 * Builds the index of a corpus in a new folder. Memory: the dictionary, 12 bytes a passage, and one run of postings.
 * @throws EpisodeError TASK for a corpus that is broken or empty
 */
export async function buildIndex(options: BuildOptions): Promise<Meta> {
  const { corpus, digest, folder, signal, runPostings = RUN_POSTINGS } = options;
  await mkdir(folder);
  const runs = new PostingRuns(folder, runPostings);
  const dictionary: Dictionary = { ids: new Map(), passages: [] };
  const { files, lengths } = await writePassages(corpus, { folder, runs, dictionary, signal });
  if (lengths.length === 0) throw new EpisodeError("TASK", `corpus ${corpus}: it has no passages`);
  const wordCount = dictionary.passages.length;
  await runs.spill(wordCount);
  let starts: Float64Array = new Float64Array();
  const postings = await written(folder, POSTINGS, async (out) => {
    starts = await runs.merge(wordCount, out);
  });
  const words = await writeWords(folder, dictionary, starts);
  const meta: Meta = {
    format: FORMAT,
    corpus: digest,
    passages: lengths.length,
    words: wordCount,
    length: lengths.reduce((sum, length) => sum + length, 0),
    files: { ...files, [POSTINGS]: postings, ...words },
  };
  await written(folder, META, (out) => void out.write(Buffer.from(JSON.stringify(meta))));
  await removeRuns(folder);
  return meta;
}

async function writePassages(
  corpus: string,
  {
    folder,
    runs,
    dictionary,
    signal,
  }: { folder: string; runs: PostingRuns; dictionary: Dictionary; signal?: AbortSignal | undefined },
) {
  const lengths: number[] = [];
  const starts: number[] = [];
  const passages = await written(folder, PASSAGES, async (out) => {
    for await (const passage of readPassages(corpus, signal)) {
      if (lengths.length >= MAX_PASSAGES)
        throw new EpisodeError("TASK", `corpus ${corpus}: at most ${MAX_PASSAGES} passages`);
      starts.push(out.position);
      const isFull = out.write(Buffer.from(`${JSON.stringify(passage)}\n`));
      if (isFull) await out.flush();
      const counts = countWords(passage);
      if (!runs.hasRoom(counts.size)) await runs.spill(dictionary.passages.length);
      lengths.push(post(counts, lengths.length, runs, dictionary));
    }
    starts.push(out.position);
  });
  const files = {
    [PASSAGES]: passages,
    [PASSAGE_STARTS]: await written(
      folder,
      PASSAGE_STARTS,
      (out) => void out.write(bytesOf(Float64Array.from(starts))),
    ),
    [LENGTHS]: await written(folder, LENGTHS, (out) => void out.write(bytesOf(Uint32Array.from(lengths)))),
  };
  return { files, lengths };
}

function countWords({ title = "", text }: CorpusDocument): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of wordsOf(`${title} ${text}`)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

/** @returns how many words the passage has */
function post(counts: Map<string, number>, passage: number, runs: PostingRuns, { ids, passages }: Dictionary): number {
  let length = 0;
  for (const [word, count] of counts) {
    let id = ids.get(word);
    if (id === undefined) {
      id = passages.length;
      ids.set(word, id);
      passages.push(0);
    }
    passages[id]! += 1;
    runs.add(id, passage, count);
    length += count;
  }
  return length;
}

async function writeWords(folder: string, { ids, passages }: Dictionary, starts: Float64Array) {
  const sorted = [...ids.keys()].sort(byCodeUnits);
  const steps: [string, number][] = [];
  const words = await written(folder, WORDS, async (out) => {
    for (const [i, word] of sorted.entries()) {
      const id = ids.get(word) as number;
      const start = starts[id] as number;
      if (i % WORDS_STEP === 0) steps.push([word, out.position]);
      const line = `${word}\t${passages[id]}\t${start}\t${(starts[id + 1] as number) - start}\n`;
      if (out.write(Buffer.from(line))) await out.flush();
    }
  });
  const index = await written(folder, WORD_STARTS, (out) => void out.write(Buffer.from(JSON.stringify(steps))));
  return { [WORDS]: words, [WORD_STARTS]: index };
}

/** The order in which words are looked up; not that of any language. */
export function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

async function written(folder: string, name: string, write: (out: FileWriter) => Promise<void> | void) {
  await using out = await FileWriter.create(join(folder, name));
  await write(out);
  return await out.finish();
}

function bytesOf(array: Float64Array | Uint32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** What only the build needed; and the folder's own entries are brought to the disk. */
async function removeRuns(folder: string): Promise<void> {
  for (let i = 0; ; i += 1) {
    const gone = await rm(join(folder, `run-${i}`)).then(
      () => true,
      () => false,
    );
    if (!gone) break;
  }
  const handle = await open(folder);
  await handle.sync().finally(() => handle.close());
}

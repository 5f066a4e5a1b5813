// SPDX-License-Identifier: Apache-2.0
import { open } from "node:fs/promises";
import { join } from "node:path";
import { FileWriter } from "./file-writer.ts";
import { VarintBuffer } from "./varint.ts";

interface Run {
  readonly path: string;
  /** Words that are in it, ascending, and where the block of each begins in the file; one place more than words. */
  readonly words: Uint32Array;
  readonly starts: Float64Array;
}

/** The postings of a corpus in the order of its passages, sorted by word in runs, so that memory does not grow with the corpus. */
export class PostingRuns {
  readonly #folder: string;
  readonly #runs: Run[] = [];
  readonly #words: Uint32Array;
  readonly #passages: Uint32Array;
  readonly #counts: Uint32Array;
  #size = 0;

  /** @param size  postings held in memory, 12 bytes each; then they go to a file */
  constructor(folder: string, size: number) {
    this.#folder = folder;
    this.#words = new Uint32Array(size);
    this.#passages = new Uint32Array(size);
    this.#counts = new Uint32Array(size);
  }

  add(word: number, passage: number, count: number): void {
    this.#words[this.#size] = word;
    this.#passages[this.#size] = passage;
    this.#counts[this.#size] = count;
    this.#size += 1;
  }

  /** For so many more; without it, `spill` comes first. */
  hasRoom(postings: number): boolean {
    return this.#size + postings <= this.#words.length;
  }

  /** @param wordCount  words that there are by now */
  async spill(wordCount: number): Promise<void> {
    if (this.#size === 0) return;
    const { order, ends } = this.#byWord(wordCount);
    const path = join(this.#folder, `run-${this.#runs.length}`);
    await using file = await FileWriter.create(path);
    const words: number[] = [];
    const starts: number[] = [];
    for (let word = 0, at = 0; word < wordCount; word += 1) {
      const end = ends[word] as number;
      if (end === at) continue;
      words.push(word);
      starts.push(file.position);
      if (file.write(this.#block(order, at, end))) await file.flush();
      at = end;
    }
    starts.push(file.position);
    await file.flush();
    this.#runs.push({ path, words: Uint32Array.from(words), starts: Float64Array.from(starts) });
    this.#size = 0;
  }

  /** Counting sort: stable, so a word's passages stay in ascending order. */
  #byWord(wordCount: number): { readonly order: Uint32Array; readonly ends: Uint32Array } {
    const ends = new Uint32Array(wordCount);
    for (let i = 0; i < this.#size; i += 1) ends[this.#words[i] as number]! += 1;
    let sum = 0;
    for (let word = 0; word < wordCount; word += 1) {
      const count = ends[word] as number;
      ends[word] = sum;
      sum += count;
    }
    const order = new Uint32Array(this.#size);
    for (let i = 0; i < this.#size; i += 1) order[ends[this.#words[i] as number]!++] = i;
    return { order, ends };
  }

  #block(order: Uint32Array, from: number, end: number): Uint8Array {
    const block = new VarintBuffer();
    block.push(end - from);
    let before = 0;
    for (let at = from; at < end; at += 1) {
      const i = order[at] as number;
      const passage = this.#passages[i] as number;
      block.push(passage - before);
      block.push(this.#counts[i] as number);
      before = passage;
    }
    return block.bytes;
  }

  /** For each word its blocks of all runs, one behind the other. @returns where each word begins, and at last the end */
  async merge(wordCount: number, out: FileWriter): Promise<Float64Array> {
    await using opened = new AsyncDisposableStack();
    const readers = [];
    for (const run of this.#runs) {
      const file = await open(run.path);
      opened.defer(() => file.close());
      readers.push(
        new RunReader(run, async (buffer, position) => (await file.read(buffer, 0, buffer.length, position)).bytesRead),
      );
    }
    const starts = new Float64Array(wordCount + 1);
    for (let word = 0; word < wordCount; word += 1) {
      starts[word] = out.position;
      for (const reader of readers) {
        if (!reader.isAt(word)) continue;
        const isReady = reader.take(out);
        if (isReady !== true) await isReady;
      }
    }
    starts[wordCount] = out.position;
    return starts;
  }
}

type Read = (buffer: Uint8Array, position: number) => Promise<number>;

/** Reads a run's blocks one after the other, a window of the file at a time. */
class RunReader {
  readonly #run: Run;
  readonly #read: Read;
  #next = 0;
  #window = new Uint8Array(1 << 20);
  #from = 0;
  #filled = 0;

  constructor(run: Run, read: Read) {
    this.#run = run;
    this.#read = read;
  }

  isAt(word: number): boolean {
    return this.#run.words[this.#next] === word;
  }

  /** Copies the next block. True: it was in the window, and there is nothing to wait for. */
  take(out: FileWriter): true | Promise<void> {
    const [start, end] = [this.#run.starts[this.#next] as number, this.#run.starts[this.#next + 1] as number];
    this.#next += 1;
    if (start < this.#from || end > this.#from + this.#filled)
      return this.#fill(start, end).then(() => this.#copy(out, start, end));
    return out.write(this.#window.subarray(start - this.#from, end - this.#from)) ? out.flush() : true;
  }

  async #copy(out: FileWriter, start: number, end: number): Promise<void> {
    if (out.write(this.#window.subarray(start - this.#from, end - this.#from))) await out.flush();
  }

  async #fill(start: number, end: number): Promise<void> {
    if (end - start > this.#window.length) this.#window = new Uint8Array(end - start);
    this.#from = start;
    this.#filled = 0;
    while (this.#filled < this.#window.length) {
      const bytes = await this.#read(this.#window.subarray(this.#filled), start + this.#filled);
      if (bytes === 0) break;
      this.#filled += bytes;
    }
    if (start + this.#filled < end) throw new Error(`${this.#run.path} ends early`);
  }
}

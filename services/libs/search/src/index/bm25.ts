// SPDX-License-Identifier: Apache-2.0
import { VarintReader } from "./varint.ts";

export interface Bm25Options {
  /** How soon a repeated word stops to count, in [0, 10]. Default 1.2. */
  readonly k1?: number | undefined;
  /** How much a long passage is held against it, in [0, 1]. Default 0.75. */
  readonly b?: number | undefined;
}

export interface QueryWord {
  /** Blocks as layout.ts has them. */
  readonly postings: Uint8Array;
  /** Passages that have the word. */
  readonly passages: number;
  /** How often the query has it. */
  readonly weight: number;
}

export interface Scored {
  readonly passage: number;
  readonly score: number;
}

/**
 * Okapi BM25 over passages, word after word: for each word w of the query
 *
 *   idf(w) · tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / meanLength)),  idf(w) = ln(1 + (N − n + 0.5) / (n + 0.5))
 *
 * with tf occurrences of w in the passage, N passages, n of them with w. Source: Robertson and Zaragoza, The Probabilistic
 * Relevance Framework: BM25 and Beyond (2009), equation 3.15; the 1 within the logarithm is Lucene's, which keeps idf positive.
 * The scores of all passages (12 bytes each) are kept from query to query, since a query runs without a pause.
 */
export class Bm25 {
  readonly #lengths: Uint32Array;
  readonly #meanLength: number;
  readonly #scores: Float64Array;
  readonly #touched: Uint32Array;

  /** @param lengths  words of each passage */
  constructor(lengths: Uint32Array, meanLength: number) {
    this.#lengths = lengths;
    this.#meanLength = meanLength || 1;
    this.#scores = new Float64Array(lengths.length);
    this.#touched = new Uint32Array(lengths.length);
  }

  /** Best first; of equal ones the earlier in the corpus. */
  best(words: readonly QueryWord[], limit: number, { k1 = 1.2, b = 0.75 }: Bm25Options = {}): Scored[] {
    let touched = 0;
    for (const word of words) touched = this.#add(word, touched, k1, b);
    const found = this.#top(touched, limit);
    for (let i = 0; i < touched; i += 1) this.#scores[this.#touched[i] as number] = 0;
    return found;
  }

  #add({ postings, passages, weight }: QueryWord, before: number, k1: number, b: number): number {
    const [scores, lengths] = [this.#scores, this.#lengths];
    const [base, slope] = [k1 * (1 - b), (k1 * b) / this.#meanLength];
    const idf = Math.log(1 + (scores.length - passages + 0.5) / (passages + 0.5));
    const factor = weight * idf * (k1 + 1);
    const reader = new VarintReader(postings);
    let touched = before;
    while (!reader.isDone) {
      let passage = 0;
      for (let left = reader.next(); left > 0; left -= 1) {
        passage += reader.next();
        const count = reader.next();
        const score = scores[passage] as number;
        if (score === 0) this.#touched[touched++] = passage;
        scores[passage] = score + (factor * count) / (count + base + slope * (lengths[passage] as number));
      }
    }
    return touched;
  }

  /** Most passages are worse than the last of the best, and cost one comparison. */
  #top(touched: number, limit: number): Scored[] {
    const best: Scored[] = [];
    let least = 0;
    for (let i = 0; i < touched; i += 1) {
      const passage = this.#touched[i] as number;
      const score = this.#scores[passage] as number;
      if (score < least) continue;
      insert({ passage, score }, best, limit);
      if (best.length === limit) least = best.at(-1)?.score ?? 0;
    }
    return best;
  }
}

function insert(scored: Scored, best: Scored[], limit: number): void {
  const at = best.findIndex((other) => isBetter(scored, other));
  best.splice(at < 0 ? best.length : at, 0, scored);
  if (best.length > limit) best.pop();
}

function isBetter(a: Scored, b: Scored): boolean {
  return a.score > b.score || (a.score === b.score && a.passage < b.passage);
}

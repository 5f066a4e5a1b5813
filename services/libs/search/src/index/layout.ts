// SPDX-License-Identifier: Apache-2.0
// What lies in an index's folder. meta.json is written last; it names the other files with size and digest, so that an index
// that is half-written or damaged is recognised.
import { z } from "zod";

/** Bumped whenever the files or the words change: an older index is built again. */
export const FORMAT = "whetstone.search/v1";

export const META = "meta.json";
/** Passages as JSON lines, and where each begins (float64, one more than there are passages). */
export const PASSAGES = "passages.jsonl";
export const PASSAGE_STARTS = "passages.f64";
/** Words of each passage (uint32). */
export const LENGTHS = "lengths.u32";
/**
 * For each word, one block for each run of the build: count, then for each passage the distance from the one before (the first
 * from 0) and how often it has the word. All are varints.
 */
export const POSTINGS = "postings.bin";
/** "word TAB passages that have it TAB place in postings TAB bytes", by word. */
export const WORDS = "words.tsv";
/** Every `WORDS_STEP`th word and where its line begins, as JSON. */
export const WORD_STARTS = "words.json";
export const WORDS_STEP = 64;

export const FILES = [PASSAGES, PASSAGE_STARTS, LENGTHS, POSTINGS, WORDS, WORD_STARTS] as const;

export const Meta = z.strictObject({
  format: z.literal(FORMAT),
  /** SHA-256 of the corpus file, lower-case hex. */
  corpus: z.string(),
  passages: z.number().int().min(1),
  /** Different words, and words of all passages. */
  words: z.number().int().min(0),
  length: z.number().int().min(0),
  files: z.record(z.enum(FILES), z.strictObject({ bytes: z.number().int().min(0), sha256: z.string() })),
});

export type Meta = z.output<typeof Meta>;

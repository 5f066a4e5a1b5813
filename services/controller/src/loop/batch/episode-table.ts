// SPDX-License-Identifier: Apache-2.0
import type { Duration } from "@bufbuild/protobuf/wkt";
import { type EpisodeSummary, Purpose } from "@whetstone/proto/types/v1/types";
import { durationMs } from "../../jobs/duration.ts";
import { PlaceTable } from "./place-table.ts";
import type { FindEpisode, KeptSummary, SealedEpisode } from "./sealed-episode.ts";
import { WordTable } from "./word-table.ts";

const ROWS = 1024;
const DIGEST_BYTES = 32;

/** A thousand sealed episodes, one array a fact. Numbers beyond 32 bits and those that may be absent (NaN) are floats. */
class Block {
  readonly sequence = new Float64Array(ROWS);
  readonly reward = new Float64Array(ROWS);
  readonly minPolicyVersion = new Float64Array(ROWS);
  readonly maxPolicyVersion = new Float64Array(ROWS);
  readonly totalMs = new Float64Array(ROWS);
  readonly modelMs = new Float64Array(ROWS);
  readonly sampledTokens = new Uint32Array(ROWS);
  readonly unlabelledTokens = new Uint32Array(ROWS);
  readonly demonstrationTokens = new Uint32Array(ROWS);
  readonly promptTokens = new Uint32Array(ROWS);
  readonly steps = new Uint32Array(ROWS);
  readonly attempt = new Uint32Array(ROWS);
  readonly words = new Uint32Array(ROWS);
  readonly series = new Uint32Array(ROWS);
  readonly index = new Int32Array(ROWS);
  readonly failureClass = new Uint8Array(ROWS);
  readonly terminationReason = new Uint8Array(ROWS);
  readonly isCorrect = new Uint8Array(ROWS);
  /** Only manifests need them, so a block of validation episodes has none. */
  digests: Buffer | undefined;
}

/** Sealed episodes in the order of their seals, about a hundred bytes each: a job may have millions. */
export class EpisodeTable {
  readonly #places = new PlaceTable();
  readonly #words = new WordTable();
  readonly #blocks: Block[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The first seal of an id counts: a second one changes nothing. */
  add(sequence: number, summary: EpisodeSummary): void {
    if (this.#places.get(summary.episodeId) !== undefined) return;
    const at = this.#size % ROWS;
    if (at === 0) this.#blocks.push(new Block());
    const block = this.#blocks.at(-1) as Block;
    const { series, index } = this.#places.set(summary.episodeId, this.#size++);
    block.sequence[at] = sequence;
    block.series[at] = series;
    block.index[at] = index;
    block.words[at] = this.#words.add(summary);
    write(block, at, summary);
  }

  readonly find: FindEpisode = (episodeId) => {
    const row = this.#places.get(episodeId);
    if (row === undefined) return undefined;
    const block = this.#blocks[Math.floor(row / ROWS)] as Block;
    return read(block, row % ROWS, this.#words);
  };

  /** Ids in the order of their seals, without the first `seen`. */
  *idsAfter(seen: number): Generator<string> {
    for (let row = seen; row < this.#size; row++) {
      const { series, index } = this.#blocks[Math.floor(row / ROWS)] as Block;
      yield this.#places.idOf({ series: series[row % ROWS] as number, index: index[row % ROWS] as number });
    }
  }
}

function write(block: Block, at: number, summary: EpisodeSummary): void {
  block.reward[at] = summary.reward;
  block.minPolicyVersion[at] = summary.minPolicyVersion === undefined ? NaN : Number(summary.minPolicyVersion);
  block.maxPolicyVersion[at] = summary.maxPolicyVersion === undefined ? NaN : Number(summary.maxPolicyVersion);
  block.totalMs[at] = millis(summary.timing?.total);
  block.modelMs[at] = millis(summary.timing?.model);
  block.sampledTokens[at] = summary.sampledTokens;
  block.unlabelledTokens[at] = summary.unlabelledTokens;
  block.demonstrationTokens[at] = summary.demonstrationTokens;
  block.promptTokens[at] = summary.promptTokens;
  block.steps[at] = summary.steps;
  block.attempt[at] = summary.attempt;
  block.failureClass[at] = summary.failureClass;
  block.terminationReason[at] = summary.terminationReason;
  block.isCorrect[at] = Number(summary.isCorrect);
  if (summary.purpose === Purpose.VALIDATION) return;
  block.digests ??= Buffer.alloc(ROWS * DIGEST_BYTES);
  block.digests.write(summary.digest, at * DIGEST_BYTES, DIGEST_BYTES, "hex");
}

function read(block: Block, at: number, words: WordTable): SealedEpisode {
  const number = (column: { readonly [at: number]: number }): number => column[at] as number;
  const version = (column: Float64Array): bigint | undefined =>
    Number.isNaN(column[at]) ? undefined : BigInt(number(column));
  const summary: KeptSummary = {
    ...words.get(number(block.words)),
    reward: number(block.reward),
    minPolicyVersion: version(block.minPolicyVersion),
    maxPolicyVersion: version(block.maxPolicyVersion),
    totalMs: number(block.totalMs),
    modelMs: number(block.modelMs),
    sampledTokens: number(block.sampledTokens),
    unlabelledTokens: number(block.unlabelledTokens),
    demonstrationTokens: number(block.demonstrationTokens),
    promptTokens: number(block.promptTokens),
    steps: number(block.steps),
    attempt: number(block.attempt),
    failureClass: number(block.failureClass),
    terminationReason: number(block.terminationReason),
    isCorrect: number(block.isCorrect) === 1,
    digest: block.digests?.toString("hex", at * DIGEST_BYTES, (at + 1) * DIGEST_BYTES) ?? "",
  };
  return { sequence: BigInt(number(block.sequence)), summary };
}

function millis(duration: Duration | undefined): number {
  return duration ? durationMs(duration) : 0;
}

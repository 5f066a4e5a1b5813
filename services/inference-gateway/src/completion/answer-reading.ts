// SPDX-License-Identifier: Apache-2.0
import { type Answer, answerOf, type AnswerPart, type AnswerReader, type ReaderOptions } from "./answer.ts";
import { noTokens } from "./generate.ts";
import type { Tokens, TokenSink } from "./generate.ts";
import { StopFilter } from "./stop-filter.ts";
import { TextStream } from "./text-stream.ts";

interface ReadingCodec {
  decode(ids: readonly number[]): string;
  reader(options: ReaderOptions): AnswerReader;
}

interface ReadingOptions {
  /** What the answer begins with although it was not sampled. */
  readonly begun: string;
  /** Strings that end the answer, and are not part of it. */
  readonly stops: readonly string[];
  readonly onPiece: ((parts: readonly AnswerPart[], tokens: Tokens) => void) | undefined;
}

/**
 * From tokens to what they say: bit by bit for a client that streams, or where a string may end the answer; else at the end.
 * Where a string does, the tokens up to the one that completes it are the answer's: they were sampled, and are trained.
 */
export class AnswerReading implements TokenSink {
  readonly #codec: ReadingCodec;
  readonly #reader: AnswerReader;
  readonly #parts: AnswerPart[] = [];
  readonly #stream: TextStream | undefined;
  readonly #filter: StopFilter | undefined;
  readonly #options: ReadingOptions;
  #text: string;
  #taken = 0;
  #enough: number | undefined;

  constructor(codec: ReadingCodec, reader: ReaderOptions, options: ReadingOptions) {
    this.#codec = codec;
    this.#options = options;
    this.#text = options.begun;
    this.#reader = codec.reader(reader);
    this.#parts.push(...this.#reader.push(options.begun));
    this.#filter = options.stops.length > 0 ? new StopFilter(options.stops) : undefined;
    this.#stream = options.onPiece || this.#filter ? new TextStream((ids) => codec.decode(ids)) : undefined;
  }

  get wanted(): boolean {
    return this.#stream !== undefined;
  }

  get enough(): number | undefined {
    return this.#enough;
  }

  get stopString(): string | undefined {
    return this.#filter?.found;
  }

  take(tokens: Tokens): void {
    // One by one where the place of each matters.
    for (const some of this.#filter ? singles(tokens) : [tokens]) this.#takeSome(some);
  }

  /** The whole. What the client of a stream has seen is the answer's text: that is what it will send back. */
  end({ ids, finishReason }: { ids: readonly number[]; finishReason: string }): { text: string; answer: Answer } {
    const rest = this.#stream ? this.#stream.end() : this.#codec.decode(ids);
    const last = this.#filter ? this.#filter.push(rest) + this.#filter.end() : rest;
    const parts = [...this.#read(last), ...this.#reader.end(finishReason === "length")];
    if (parts.length > 0) this.#hand(parts, noTokens());
    return { text: this.#text, answer: answerOf(this.#parts) };
  }

  #takeSome(tokens: Tokens): void {
    if (this.#stream === undefined || this.#enough !== undefined) return;
    this.#taken += tokens.ids.length;
    const text = this.#stream.push(tokens.ids);
    this.#hand(this.#read(this.#filter ? this.#filter.push(text) : text), tokens);
    if (this.#filter?.found !== undefined) this.#enough = this.#taken;
  }

  #read(text: string): AnswerPart[] {
    this.#text += text;
    return this.#reader.push(text);
  }

  #hand(parts: readonly AnswerPart[], tokens: Tokens): void {
    this.#parts.push(...parts);
    this.#options.onPiece?.(parts, tokens);
  }
}

function singles({ ids, logprobs, alternatives, supports }: Tokens): Tokens[] {
  return ids.map((id, i) => ({
    ids: [id],
    logprobs: logprobs.slice(i, i + 1),
    alternatives: alternatives.slice(i, i + 1),
    supports: supports.slice(i, i + 1),
  }));
}

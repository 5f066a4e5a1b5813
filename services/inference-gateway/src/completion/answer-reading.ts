// SPDX-License-Identifier: Apache-2.0
import { type Answer, answerOf, type AnswerPart, type AnswerReader, type ReaderOptions } from "./answer.ts";
import { noTokens } from "./generate.ts";
import type { OnTokens, Tokens } from "./generate.ts";
import { TextStream } from "./text-stream.ts";

type OnPieceOrNone = ((parts: readonly AnswerPart[], tokens: Tokens) => void) | undefined;

interface ReadingCodec {
  decode(ids: readonly number[]): string;
  reader(options: ReaderOptions): AnswerReader;
}

/** From tokens to what they say, bit by bit for a client that streams, else at the end. */
export class AnswerReading {
  readonly #codec: ReadingCodec;
  readonly #reader: AnswerReader;
  readonly #parts: AnswerPart[] = [];
  readonly #stream: TextStream | undefined;
  readonly #onPiece: OnPieceOrNone;

  readonly #begun: string;

  /** @param begun  what the answer begins with although it was not sampled. */
  constructor(
    codec: ReadingCodec,
    options: ReaderOptions,
    { begun, onPiece }: { begun: string; onPiece: OnPieceOrNone },
  ) {
    this.#codec = codec;
    this.#begun = begun;
    this.#reader = codec.reader(options);
    this.#parts.push(...this.#reader.push(begun));
    this.#onPiece = onPiece;
    this.#stream = onPiece && new TextStream((ids) => codec.decode(ids));
  }

  /** Takes tokens as they come; undefined: nobody waits for them. */
  get forward(): OnTokens | undefined {
    const stream = this.#stream;
    return (
      stream &&
      ((tokens) => {
        this.#hand(this.#reader.push(stream.push(tokens.ids)), tokens);
      })
    );
  }

  /** The whole. What the client of a stream has seen is the answer's text: that is what it will send back. */
  end({ ids, finishReason }: { ids: readonly number[]; finishReason: string }): { text: string; answer: Answer } {
    const rest = this.#stream ? this.#stream.end() : this.#codec.decode(ids);
    const parts = [...this.#reader.push(rest), ...this.#reader.end(finishReason === "length")];
    if (parts.length > 0) this.#hand(parts, noTokens());
    return { text: this.#begun + (this.#stream?.text ?? rest), answer: answerOf(this.#parts) };
  }

  #hand(parts: readonly AnswerPart[], tokens: Tokens): void {
    this.#parts.push(...parts);
    this.#onPiece?.(parts, tokens);
  }
}

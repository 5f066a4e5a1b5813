// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import { type AnswerPart, partsOf } from "../../completion/answer.ts";
import type { ApiError } from "../../completion/api-error.ts";
import type { Completion, CompletionCall, Codec } from "../../completion/complete.ts";
import type { Tokens } from "../../completion/generate.ts";
import { type AnswerStream, STREAM_HEADERS } from "../dialect.ts";
import { closingChunks, event, openingChunk, pieceChunks } from "./answer.ts";
import type { StreamHead } from "./answer.ts";
import { wireError } from "../openai-error.ts";
import type { ChatRequest } from "./parse.ts";

/** A streamed answer on its way out. Nothing is sent before the first piece, so that an early error keeps its status. */
export class ChatStream implements AnswerStream {
  readonly #response: ServerResponse;
  readonly #call: CompletionCall<ChatRequest>;
  readonly #codec: Codec;
  readonly #head: StreamHead;
  started = false;
  /** Of each answer that has begun, how many calls were sent. */
  readonly #calls = new Map<number, number>();

  constructor(response: ServerResponse, call: CompletionCall<ChatRequest>, codec: Codec, nowMs: number) {
    this.#response = response;
    this.#call = call;
    this.#codec = codec;
    const created = Math.floor(nowMs / 1000);
    this.#head = { id: call.requestId, object: "chat.completion.chunk", created, model: call.request.model };
  }

  /** Parts and their tokens. Tokens that say nothing yet come without a part, if the client asked for tokens. */
  piece(parts: readonly AnswerPart[], tokens: Tokens, index: number): void {
    const { request } = this.#call;
    const wantsTokens = request.logprobs !== undefined || request.returnTokenIds;
    if (parts.length === 0 && !(wantsTokens && tokens.ids.length > 0)) return;
    this.#open(index);
    const calls = this.#calls.get(index) ?? 0;
    this.#response.write(pieceChunks(this.#head, request, { index, parts, tokens, calls }, this.#codec));
    this.#calls.set(index, calls + parts.filter(({ kind }) => kind === "call").length);
  }

  /** The rest and `[DONE]`. */
  end(answers: readonly Completion[]): void {
    for (const [index, { answer, generation }] of answers.entries()) {
      // A replayed answer was never streamed: it comes in one piece.
      if (!this.#calls.has(index) && generation.ids.length > 0) this.piece(partsOf(answer), generation, index);
      this.#open(index);
    }
    this.#response.end(closingChunks(this.#head, this.#call.request, answers));
  }

  /** The status went out already: the error is the last event, as OpenAI and vLLM do it. */
  fail(error: ApiError): void {
    this.#response.end(`${event(wireError(error).body)}data: [DONE]\n\n`);
  }

  #open(index: number): void {
    if (!this.started) this.#response.writeHead(200, STREAM_HEADERS);
    this.started = true;
    if (this.#calls.has(index)) return;
    this.#calls.set(index, 0);
    this.#response.write(openingChunk(this.#head, index));
  }
}

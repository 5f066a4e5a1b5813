// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import type { ApiError } from "../../completion/api-error.ts";
import type { Completion, CompletionCall, Codec } from "../../completion/complete.ts";
import type { Tokens } from "../../completion/generate.ts";
import type { AnswerStream } from "../dialect.ts";
import { closingChunks, event, openingChunk, pieceChunk } from "./answer.ts";
import type { StreamHead } from "./answer.ts";
import { wireError } from "./error.ts";
import type { ChatRequest } from "./parse.ts";

const HEADERS = { "content-type": "text/event-stream", "cache-control": "no-cache" };

/** A streamed answer on its way out. Nothing is sent before the first piece, so that an early error keeps its status. */
export class ChatStream implements AnswerStream {
  readonly #response: ServerResponse;
  readonly #call: CompletionCall<ChatRequest>;
  readonly #codec: Codec;
  readonly #head: StreamHead;
  started = false;
  #sent = false;

  constructor(response: ServerResponse, call: CompletionCall<ChatRequest>, codec: Codec, nowMs: number) {
    this.#response = response;
    this.#call = call;
    this.#codec = codec;
    const created = Math.floor(nowMs / 1000);
    this.#head = { id: call.requestId, object: "chat.completion.chunk", created, model: call.request.model };
  }

  /** Text and its tokens. Tokens inside an unfinished character come without text, if the client asked for tokens. */
  piece(text: string, tokens: Tokens): void {
    const { request } = this.#call;
    const wantsTokens = request.logprobs !== undefined || request.returnTokenIds;
    if (text === "" && !(wantsTokens && tokens.ids.length > 0)) return;
    this.#open();
    this.#sent = true;
    this.#response.write(pieceChunk(this.#head, request, { text, tokens }, this.#codec));
  }

  /** The rest and `[DONE]`. */
  end(answer: Completion): void {
    // A replayed answer was never streamed: it comes in one piece.
    if (!this.#sent && answer.generation.ids.length > 0) this.piece(answer.text, answer.generation);
    this.#open();
    this.#response.end(closingChunks(this.#head, this.#call.request, answer));
  }

  /** The status went out already: the error is the last event, as OpenAI and vLLM do it. */
  fail(error: ApiError): void {
    this.#response.end(`${event(wireError(error).body)}data: [DONE]\n\n`);
  }

  #open(): void {
    if (this.started) return;
    this.started = true;
    this.#response.writeHead(200, HEADERS);
    this.#response.write(openingChunk(this.#head));
  }
}

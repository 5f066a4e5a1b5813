// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import { type AnswerPart, partsOf } from "../../completion/answer.ts";
import type { ApiError } from "../../completion/api-error.ts";
import type { Codec, Completion, CompletionCall } from "../../completion/complete.ts";
import type { Tokens } from "../../completion/generate.ts";
import { type AnswerStream, STREAM_HEADERS } from "../dialect.ts";
import { wireError } from "../openai-error.ts";
import { usageOf } from "../openai-usage.ts";
import { choiceOf, headOf } from "./answer.ts";
import type { TextRequest } from "./parse.ts";

/** A streamed text completion. */
export class TextCompletionStream implements AnswerStream {
  readonly #response: ServerResponse;
  readonly #request: TextRequest;
  readonly #codec: Codec;
  readonly #head: object;
  readonly #begun = new Set<number>();

  constructor(
    response: ServerResponse,
    { request, requestId }: CompletionCall<TextRequest>,
    codec: Codec,
    nowMs: number,
  ) {
    this.#response = response;
    this.#request = request;
    this.#codec = codec;
    this.#head = headOf(request, requestId, nowMs);
  }

  get started(): boolean {
    return this.#begun.size > 0;
  }

  piece(parts: readonly AnswerPart[], tokens: Tokens, index: number): void {
    const text = parts.map((part) => (part.kind === "call" ? "" : part.text)).join("");
    const isWanted =
      text !== "" || (tokens.ids.length > 0 && (this.#request.returnTokenIds || this.#request.logprobs !== undefined));
    if (isWanted) this.#send(index, choiceOf(this.#request, { index, text, tokens }, this.#codec));
  }

  end(answers: readonly Completion[]): void {
    for (const [index, { answer, generation, callId, promptIds }] of answers.entries()) {
      // A replayed answer was never streamed: it comes in one piece.
      if (!this.#begun.has(index)) this.piece(partsOf(answer), generation, index);
      const ids = this.#request.returnTokenIds ? promptIds.all() : undefined;
      const last = {
        index,
        text: "",
        logprobs: null,
        finish_reason: generation.finishReason,
        call_id: callId,
        prompt_token_ids: ids,
      };
      this.#send(index, last);
    }
    if (this.#request.includeUsage) this.#write({ ...this.#head, choices: [], usage: usageOf(answers) });
    this.#response.end("data: [DONE]\n\n");
  }

  fail(error: ApiError): void {
    this.#write(wireError(error).body);
    this.#response.end("data: [DONE]\n\n");
  }

  #send(index: number, choice: object): void {
    if (!this.started) this.#response.writeHead(200, STREAM_HEADERS);
    this.#begun.add(index);
    this.#write({ ...this.#head, choices: [choice] });
  }

  #write(value: object): void {
    this.#response.write(`data: ${JSON.stringify(value)}\n\n`);
  }
}

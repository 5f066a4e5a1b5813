// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import { type AnswerPart, partsOf, type ToolCall } from "../../completion/answer.ts";
import type { ApiError } from "../../completion/api-error.ts";
import type { Completion, CompletionCall } from "../../completion/complete.ts";
import { type AnswerStream, STREAM_HEADERS } from "../dialect.ts";
import { callBlock, EMPTY_USAGE, inputOf, messageHead, stopOf, usageOf } from "./answer.ts";
import { wireError } from "./error.ts";

/** A streamed message: blocks one after another. How many tokens went in is told at the end. */
export class MessagesStream implements AnswerStream {
  readonly #response: ServerResponse;
  readonly #call: CompletionCall;
  started = false;
  #blocks = 0;
  #open: "content" | "reasoning" | undefined;

  constructor(response: ServerResponse, call: CompletionCall) {
    this.#response = response;
    this.#call = call;
  }

  piece(parts: readonly AnswerPart[]): void {
    if (parts.length > 0) this.#begin();
    for (const part of parts) {
      if (part.kind === "call") this.#sendCall(part.call);
      else this.#sendText(part.kind, part.text);
    }
  }

  end([completion]: readonly Completion[]): void {
    if (completion === undefined) return;
    // A replayed answer was never streamed; one without a word is an empty text.
    if (this.#blocks === 0 && this.#open === undefined) this.piece(partsOf(completion.answer));
    this.#begin();
    if (this.#blocks === 0 && this.#open === undefined) this.#sendText("content", "");
    this.#closeBlock();
    this.#send("message_delta", { delta: stopOf(completion), usage: usageOf(completion) });
    this.#send("message_stop", {});
    this.#response.end();
  }

  fail(error: ApiError): void {
    this.#send("error", wireError(error).body);
    this.#response.end();
  }

  #begin(): void {
    if (this.started) return;
    this.started = true;
    this.#response.writeHead(200, STREAM_HEADERS);
    const { request, requestId } = this.#call;
    this.#send("message_start", { message: { ...messageHead(request, requestId), usage: EMPTY_USAGE } });
  }

  #sendText(kind: "content" | "reasoning", text: string): void {
    const isText = kind === "content";
    if (this.#open !== kind) {
      this.#closeBlock();
      this.#openBlock(isText ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" });
      this.#open = kind;
    }
    if (text !== "") this.#delta(isText ? { type: "text_delta", text } : { type: "thinking_delta", thinking: text });
  }

  #sendCall(call: ToolCall): void {
    this.#closeBlock();
    this.#openBlock({ ...callBlock(call), input: {} });
    this.#delta({ type: "input_json_delta", partial_json: JSON.stringify(inputOf(call)) });
    this.#send("content_block_stop", { index: this.#blocks++ });
  }

  #openBlock(block: object): void {
    this.#send("content_block_start", { index: this.#blocks, content_block: block });
  }

  #delta(delta: object): void {
    this.#send("content_block_delta", { index: this.#blocks, delta });
  }

  #closeBlock(): void {
    if (this.#open === undefined) return;
    this.#open = undefined;
    this.#send("content_block_stop", { index: this.#blocks++ });
  }

  #send(type: string, fields: object): void {
    this.#response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  }
}

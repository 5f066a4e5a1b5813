// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import { type AnswerPart, partsOf, type ToolCall } from "../../completion/answer.ts";
import type { ApiError } from "../../completion/api-error.ts";
import type { Completion, CompletionCall } from "../../completion/complete.ts";
import { type AnswerStream, STREAM_HEADERS } from "../dialect.ts";
import { wireError } from "../openai-error.ts";
import { callItem, messageItem, namedByClient, responseHead, responseOf, textPart, thoughtsItem } from "./answer.ts";
import { itemId } from "./items.ts";
import type { ResponsesRequest } from "./parse.ts";

/** An item of text that is being sent. */
interface OpenItem {
  readonly kind: "content" | "reasoning";
  readonly id: string;
  text: string;
}

/** A streamed response: events that build its items one after another. */
export class ResponsesStream implements AnswerStream {
  readonly #response: ServerResponse;
  readonly #call: CompletionCall<ResponsesRequest>;
  readonly #createdMs: number;
  started = false;
  #events = 0;
  #items = 0;
  #calls = 0;
  #open: OpenItem | undefined;

  constructor(response: ServerResponse, call: CompletionCall<ResponsesRequest>, nowMs: number) {
    this.#response = response;
    this.#call = call;
    this.#createdMs = nowMs;
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
    // A replayed answer was never streamed; one without a word is an empty message.
    if (!this.#hasItem) this.piece(partsOf(completion.answer));
    this.#begin();
    if (!this.#hasItem) this.#sendText("content", "");
    this.#closeItem();
    const isCut = completion.generation.finishReason === "length";
    const response = responseOf(this.#call.request, completion);
    this.#send(isCut ? "response.incomplete" : "response.completed", { response });
    this.#response.end();
  }

  fail(error: ApiError): void {
    const { message, reason } = error;
    const head = responseHead(this.#call.request, this.#call.requestId, this.#createdMs);
    this.#send("error", { ...(wireError(error).body as { error: object }).error });
    this.#send("response.failed", { response: { ...head, status: "failed", error: { code: reason, message } } });
    this.#response.end();
  }

  get #hasItem(): boolean {
    return this.#items > 0 || this.#open !== undefined;
  }

  #begin(): void {
    if (this.started) return;
    this.started = true;
    this.#response.writeHead(200, STREAM_HEADERS);
    const response = responseHead(this.#call.request, this.#call.requestId, this.#createdMs);
    this.#send("response.created", { response });
    this.#send("response.in_progress", { response });
  }

  #sendText(kind: OpenItem["kind"], text: string): void {
    if (this.#open?.kind !== kind) this.#openItem(kind);
    if (this.#open === undefined || text === "") return;
    this.#open.text += text;
    const name = kind === "content" ? "response.output_text.delta" : "response.reasoning_text.delta";
    this.#send(name, {
      ...this.#at(this.#open),
      content_index: 0,
      delta: text,
      ...(kind === "content" ? { logprobs: [] } : {}),
    });
  }

  #openItem(kind: OpenItem["kind"]): void {
    this.#closeItem();
    const response = this.#call.requestId;
    const isText = kind === "content";
    const id = itemId(isText ? "msg" : "rs", response);
    const item = {
      ...(isText ? messageItem(response, "") : thoughtsItem(response, "")),
      content: [],
      status: "in_progress",
    };
    this.#send("response.output_item.added", { output_index: this.#items, item });
    this.#open = { kind, id, text: "" };
    const part = isText ? textPart("") : { type: "reasoning_text", text: "" };
    this.#send("response.content_part.added", { ...this.#at(this.#open), content_index: 0, part });
  }

  #closeItem(): void {
    const open = this.#open;
    if (open === undefined) return;
    const [response, isText] = [this.#call.requestId, open.kind === "content"];
    const place = { ...this.#at(open), content_index: 0 };
    const done = isText ? { text: open.text, logprobs: [] } : { text: open.text };
    this.#send(isText ? "response.output_text.done" : "response.reasoning_text.done", { ...place, ...done });
    const part = isText ? textPart(open.text) : { type: "reasoning_text", text: open.text };
    this.#send("response.content_part.done", { ...place, part });
    const item = isText ? messageItem(response, open.text) : thoughtsItem(response, open.text);
    this.#send("response.output_item.done", { output_index: this.#items++, item });
    this.#open = undefined;
  }

  #sendCall(sampled: ToolCall): void {
    this.#closeItem();
    const call = namedByClient(this.#call.request, sampled);
    const number = this.#calls++;
    const item = callItem(this.#call.requestId, call, number);
    const place = { item_id: itemId("fc", this.#call.requestId, number), output_index: this.#items };
    const added = { ...item, status: "in_progress", arguments: "" };
    this.#send("response.output_item.added", { output_index: this.#items, item: added });
    this.#send("response.function_call_arguments.delta", { ...place, delta: call.arguments });
    this.#send("response.function_call_arguments.done", { ...place, name: call.name, arguments: call.arguments });
    this.#send("response.output_item.done", { output_index: this.#items++, item });
  }

  #at({ id }: OpenItem): object {
    return { item_id: id, output_index: this.#items };
  }

  #send(type: string, fields: object): void {
    const event = { type, sequence_number: this.#events++, ...fields };
    this.#response.write(`event: ${type}\ndata: ${JSON.stringify(event)}\n\n`);
  }
}

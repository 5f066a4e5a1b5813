// SPDX-License-Identifier: Apache-2.0
import type { Dispatcher } from "undici";
import { appendTokens, type AttemptEnd, noTokens, type OnTokens, type Tokens } from "../completion/generate.ts";
import { readTokens } from "./engine-wire.ts";
import type { WireAnswer } from "./engine-wire.ts";

type Controller = Dispatcher.DispatchController;

/** Reads one response of an engine and settles exactly once, whatever the connection does. */
abstract class ResponseReader implements Dispatcher.DispatchHandler {
  protected status = 0;
  readonly #expectedLabel: string;
  readonly #onEnd: (end: AttemptEnd) => void;
  #controller: Controller | undefined;
  #settled = false;

  constructor(expectedLabel: string, settle: (end: AttemptEnd) => void) {
    this.#expectedLabel = expectedLabel;
    this.#onEnd = settle;
  }

  protected get settled(): boolean {
    return this.#settled;
  }

  /** Ends the attempt now. Closing the connection aborts the request in the engine (I9). */
  stop(end: AttemptEnd): void {
    if (this.#settled) return;
    this.settle(end);
    this.#controller?.abort(new Error("the gateway ended the attempt"));
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#settled) controller.abort(new Error("the gateway ended the attempt"));
  }

  onResponseStart(
    _controller: Controller,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.status = status;
    const label = headers["x-weight-version"];
    // The header is advisory (stock vLLM has none), but a foreign one shows a restarted engine before its first token.
    if (status !== 200 || label === undefined || label === this.#expectedLabel) return;
    const message = `the engine's header says the label "${String(label)}", expected "${this.#expectedLabel}"`;
    this.stop({ kind: "failed", reason: "label_mismatch", message, quarantine: true });
  }

  abstract onResponseData(controller: Controller, chunk: Buffer): void;
  abstract onResponseEnd(): void;

  onResponseError(_controller: Controller, error: Error): void {
    const refused = (error as NodeJS.ErrnoException).code === "ECONNREFUSED";
    this.settle({ kind: "failed", reason: "connection", message: error.message, quarantine: refused });
  }

  protected settle(end: AttemptEnd): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#onEnd(end);
  }
}

/** A whole answer in one body. */
export class AnswerReader extends ResponseReader {
  readonly #alternatives: number;
  readonly #chunks: Buffer[] = [];

  constructor(expectedLabel: string, alternatives: number, settle: (end: AttemptEnd) => void) {
    super(expectedLabel, settle);
    this.#alternatives = alternatives;
  }

  override onResponseData(_controller: Controller, chunk: Buffer): void {
    this.#chunks.push(chunk);
  }

  override onResponseEnd(): void {
    const text = (this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)).toString();
    const answer = parseAnswer(text);
    this.settle(this.status === 200 && answer ? this.#read(answer) : endOfError(this.status, answer, text));
  }

  #read(answer: WireAnswer): AttemptEnd {
    const choice = answer.choices?.[0];
    if (choice === undefined) return badAnswer("no choices");
    const tokens = readTokens(choice, this.#alternatives);
    if (typeof tokens === "string") return badAnswer(tokens);
    const cachedTokens = answer.usage?.prompt_tokens_details?.cached_tokens ?? 0;
    const finishReason = choice.finish_reason ?? "abort";
    return { kind: "done", tokens, spans: choice.weight_versions ?? undefined, finishReason, cachedTokens };
  }
}

/** Server-sent events; an answer is complete at `[DONE]`. */
export class StreamReader extends ResponseReader {
  readonly #alternatives: number;
  readonly #onTokens: OnTokens;
  readonly #decoder = new TextDecoder();
  readonly #all = noTokens();
  #pending = "";
  #end: Extract<AttemptEnd, { kind: "done" }> = {
    ...{ kind: "done", tokens: this.#all, spans: undefined, finishReason: "abort", cachedTokens: 0 },
  };

  constructor(expectedLabel: string, alternatives: number, settle: (end: AttemptEnd) => void, onTokens: OnTokens) {
    super(expectedLabel, settle);
    this.#alternatives = alternatives;
    this.#onTokens = onTokens;
  }

  override onResponseData(_controller: Controller, chunk: Buffer): void {
    this.#pending += this.#decoder.decode(chunk, { stream: true });
    if (this.status !== 200) return;
    const lines = this.#pending.split("\n");
    this.#pending = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) this.#onEvent(line.slice(5).trim());
  }

  override onResponseEnd(): void {
    if (this.status === 200) this.settle({ ...CONNECTION_LOST });
    else this.settle(endOfError(this.status, parseAnswer(this.#pending), this.#pending));
  }

  /** What the engine said of the tokens that came goes with them, however it ends. */
  protected override settle(end: AttemptEnd): void {
    super.settle(end.kind === "failed" ? { ...end, spans: this.#end.spans } : end);
  }

  #onEvent(data: string): void {
    if (this.settled) return;
    // A stream that ends without a finish_reason was aborted (vLLM before 0.32).
    if (data === "[DONE]") {
      this.settle(this.#end);
      return;
    }
    const chunk = parseAnswer(data);
    if (chunk === undefined) this.stop(badAnswer("an event is not JSON"));
    // Errors of a stream come with status 200, inside it.
    else if (chunk.error !== undefined) this.stop(endOfError(Number(chunk.error.code ?? 500), chunk, data));
    else this.#onChunk(chunk);
  }

  #onChunk(chunk: WireAnswer): void {
    const cachedTokens = chunk.usage?.prompt_tokens_details?.cached_tokens ?? this.#end.cachedTokens;
    const choice = chunk.choices?.[0];
    this.#end = { ...this.#end, cachedTokens };
    if (choice === undefined) return;
    const tokens = readTokens(choice, this.#alternatives);
    if (typeof tokens === "string") {
      this.stop(badAnswer(tokens));
      return;
    }
    this.#take(tokens);
    const finishReason = choice.finish_reason ?? this.#end.finishReason;
    this.#end = { ...this.#end, finishReason, spans: choice.weight_versions ?? this.#end.spans };
  }

  #take(tokens: Tokens): void {
    if (tokens.ids.length === 0) return;
    appendTokens(this.#all, tokens);
    this.#onTokens(tokens);
  }
}

const CONNECTION_LOST: AttemptEnd = {
  ...{ kind: "failed", reason: "connection", message: "the stream ended before [DONE]", quarantine: false },
};

function badAnswer(reason: string): AttemptEnd {
  return {
    kind: "failed",
    reason: "bad_answer",
    message: `the engine's answer is broken: ${reason}`,
    quarantine: false,
  };
}

function parseAnswer(text: string): WireAnswer | undefined {
  try {
    return JSON.parse(text) as WireAnswer;
  } catch {
    return undefined;
  }
}

/** 400 and 422 are the request's fault, 5xx and 429 pass, all else means that this is no engine we can use. */
function endOfError(status: number, answer: WireAnswer | undefined, text: string): AttemptEnd {
  const message = answer?.error?.message ?? text.slice(0, 200);
  if (status === 400 || status === 422) return { kind: "rejected", message };
  const passes = status >= 500 || status === 429 || status === 200;
  const said = `generate answered HTTP ${status}: ${message}`;
  return { kind: "failed", reason: passes ? "server_error" : "refused", message: said, quarantine: !passes };
}

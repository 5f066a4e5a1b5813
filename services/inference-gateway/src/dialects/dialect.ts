// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import type { AnswerPart } from "../completion/answer.ts";
import type { ApiError } from "../completion/api-error.ts";
import type { Codec, Completion, CompletionCall } from "../completion/complete.ts";
import type { Tokens } from "../completion/generate.ts";
import type { EarlierAnswers } from "../completion/earlier-answers.ts";
import type { CompletionRequest } from "../completion/request.ts";

/**
 * How a client speaks to the gateway. A dialect knows no engine and no session: it turns a body into a `CompletionRequest`, and a
 * completion into what its clients expect. Its folder has one file each for parse, answer, stream and error.
 */
export interface Dialect<Request extends CompletionRequest = CompletionRequest> {
  /** Where its requests are posted, below the server's root and below a session. */
  readonly path: string;
  /** What names of its answers begin with. */
  readonly idPrefix: string;
  /** @param body  parsed JSON. @param earlier  of the session. @throws ApiError 400 with the path of the bad field. */
  parse(body: unknown, earlier: EarlierAnswers): Request;
  /** The body of an answer that is not streamed. */
  answer(request: Request, completions: readonly Completion[], codec: Codec): string;
  /** @param nowMs  since the epoch. Nothing is sent before the first piece. */
  stream(response: ServerResponse, call: CompletionCall<Request>, codec: Codec, nowMs: number): AnswerStream;
  /** The error in the client's words. */
  readonly error: ErrorForm;
}

export type ErrorForm = (error: ApiError) => WireError;

/** Of every streamed answer. */
export const STREAM_HEADERS = { "content-type": "text/event-stream", "cache-control": "no-cache" };

/** An answer that is an error. */
export interface WireError {
  readonly status: number;
  readonly body: object;
}

/** A streamed answer on its way out. */
export interface AnswerStream {
  /** The status went out already: an error can only be the stream's last event. */
  readonly started: boolean;
  /** @param index  which of several answers. */
  piece(parts: readonly AnswerPart[], tokens: Tokens, index: number): void;
  end(completions: readonly Completion[]): void;
  fail(error: ApiError): void;
}

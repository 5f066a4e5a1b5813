// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Dispatcher } from "undici";

export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** The connection failed before a whole answer came. */
export class ConnectionError extends WhetstoneError {
  constructor(message: string, cause: unknown) {
    super("UNAVAILABLE", message, { cause });
  }
}

type Handler = Required<
  Pick<
    Dispatcher.DispatchHandler,
    "onRequestStart" | "onResponseStart" | "onResponseData" | "onResponseEnd" | "onResponseError"
  >
>;

/**
 * One request over a pool, without the streams of undici's `request`: half the CPU of a small exchange.
 * Aborting closes the request's connection, so that the server sees it and stops working.
 * @throws the signal's reason, or ConnectionError.
 */
export function exchange(pool: Dispatcher, request: HttpRequest): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const { method, path, headers, body, signal } = request;
    pool.dispatch(
      { method, path, headers: headers as Record<string, string>, body: body ?? null },
      handlerOf(signal, resolve, reject),
    );
  });
}

function handlerOf(
  signal: AbortSignal,
  resolve: (answer: HttpAnswer) => void,
  reject: (error: unknown) => void,
): Handler {
  let controller: Dispatcher.DispatchController | undefined;
  let status = 0;
  let headers: HttpAnswer["headers"] = {};
  const chunks: Buffer[] = [];
  const onAbort = (): void => controller?.abort(signal.reason as Error);
  signal.addEventListener("abort", onAbort, { once: true });
  return {
    onRequestStart(started) {
      controller = started;
      if (signal.aborted) onAbort();
    },
    onResponseStart(_controller, statusCode, responseHeaders) {
      status = statusCode;
      headers = responseHeaders;
    },
    onResponseData(_controller, chunk) {
      chunks.push(chunk);
    },
    onResponseEnd() {
      signal.removeEventListener("abort", onAbort);
      resolve({ status, headers, body: chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks) });
    },
    onResponseError(_controller, error) {
      signal.removeEventListener("abort", onAbort);
      reject(signal.aborted ? signal.reason : new ConnectionError(`connection failed: ${error.message}`, error));
    },
  };
}

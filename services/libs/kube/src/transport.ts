// SPDX-License-Identifier: Apache-2.0
import { Deadline, sleep } from "@whetstone/core";
import { type Dispatcher, request } from "undici";
import { answerError, httpStatus, retryAfterMs, transportError } from "./api-error.ts";
import { type Credentials, Lines } from "./credentials.ts";
import type { Instruments } from "./instruments.ts";

const CALL_MS = 30_000;
/** A server that is busy and names no time. */
const BUSY_MS = 1_000;

export interface Call {
  /** For metrics and messages: get, list, watch, create, apply, patch, update, delete. */
  readonly verb: string;
  readonly kind: string;
  readonly method: Dispatcher.HttpMethod;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>> | undefined;
  readonly body?: unknown;
  readonly contentType?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Default 30,000. */
  readonly timeoutMs?: number | undefined;
  /** Wait and ask again when the server says 429, within the deadline. Default true. */
  readonly patient?: boolean | undefined;
}

/** HTTP to the API server: every call ends by a deadline, every failure is a WhetstoneError. */
export class Transport implements Disposable {
  readonly #lines: Lines;
  readonly #instruments: Instruments;

  constructor(credentials: Credentials, instruments: Instruments) {
    this.#lines = new Lines(credentials);
    this.#instruments = instruments;
  }

  async call<T>(call: Call): Promise<T> {
    using deadline = Deadline.after(call.timeoutMs ?? CALL_MS, call.signal);
    for (let again = true; ;) {
      try {
        return await this.#once<T>(call, deadline.signal);
      } catch (error) {
        const waitMs = waitBefore(error, call, again);
        if (waitMs === undefined || waitMs >= deadline.remainingMs()) throw error;
        if (httpStatus(error) === undefined) again = false;
        await sleep(waitMs, deadline.signal);
      }
    }
  }

  /** The lines of an answer that goes on; rejects when `silenceMs` pass without a byte, or the connection breaks. */
  async *stream(call: Call, silenceMs: number): AsyncGenerator<string> {
    const what = `${call.verb} ${call.path}`;
    const signal = call.signal ?? new AbortController().signal;
    const answer = await this.#send(call, signal, {
      headersTimeout: Math.min(CALL_MS, silenceMs),
      bodyTimeout: silenceMs,
    });
    if (answer.statusCode !== 200) throw await this.#refusal(call, answer);
    try {
      answer.body.setEncoding("utf8");
      yield* linesOf(answer.body as AsyncIterable<string>);
    } catch (cause) {
      throw transportError(what, signal.aborted ? signal.reason : cause);
    } finally {
      answer.body.destroy();
    }
  }

  [Symbol.dispose](): void {
    this.#lines[Symbol.dispose]();
  }

  async #once<T>(call: Call, signal: AbortSignal): Promise<T> {
    const answer = await this.#send(call, signal, {});
    if (answer.statusCode >= 300) throw await this.#refusal(call, answer);
    try {
      return (await answer.body.json()) as T;
    } catch (cause) {
      throw transportError(`${call.verb} ${call.path}`, signal.aborted ? signal.reason : cause);
    }
  }

  async #send(call: Call, signal: AbortSignal, timeouts: Timeouts): Promise<Dispatcher.ResponseData> {
    const type = call.contentType ?? "application/json";
    try {
      const { origin, headers, dispatcher } = await this.#lines.line();
      const answer = await request(origin + call.path + queryOf(call.query), {
        method: call.method,
        dispatcher,
        signal,
        ...timeouts,
        headers: { accept: "application/json", ...headers, ...(call.body !== undefined && { "content-type": type }) },
        ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      });
      this.#instruments.request(call.verb, call.kind, String(answer.statusCode));
      return answer;
    } catch (cause) {
      this.#instruments.request(call.verb, call.kind, "none");
      throw transportError(`${call.verb} ${call.path}`, signal.aborted ? signal.reason : cause);
    }
  }

  async #refusal(call: Call, answer: Dispatcher.ResponseData): Promise<Error> {
    if (answer.statusCode === 401) this.#lines.refused();
    const body = await answer.body.text().catch(() => "");
    const header = answer.headers["retry-after"];
    return answerError(
      `${call.verb} ${call.path}`,
      answer.statusCode,
      body,
      Array.isArray(header) ? header[0] : header,
    );
  }
}

/** A last line without its end was cut off: nobody can read it. */
async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield line;
  }
}

interface Timeouts {
  readonly headersTimeout?: number;
  readonly bodyTimeout?: number;
}

/** 429 means that nothing was done. A read whose connection broke is repeated once: idle connections die unseen. */
function waitBefore(error: unknown, call: Call, again: boolean): number | undefined {
  if (call.patient === false) return undefined;
  if (httpStatus(error) === 429) return (retryAfterMs(error) ?? BUSY_MS) * (1 + Math.random() / 4);
  const broke = httpStatus(error) === undefined && (error as { code?: string }).code === "UNAVAILABLE";
  return broke && again && call.method === "GET" ? 0 : undefined;
}

function queryOf(query: Call["query"]): string {
  const pairs = Object.entries(query ?? {}).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs).toString()}`;
}

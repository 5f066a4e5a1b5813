// SPDX-License-Identifier: Apache-2.0
/** HTTP calls to one engine. What it answers is handed on, whatever the status; that it does not answer in time is an error. */
import { connectorTo, type TlsPeer } from "@whetstone/tls";
import { Agent, type Dispatcher, request } from "undici";

export interface ApiOptions {
  /** "http://host:8000", without a path. */
  readonly url: string;
  /** Of one call, and between two events of a stream. */
  readonly timeoutMs: number;
  readonly apiKey?: string | undefined;
  /** Whom an https:// URL must lead to. Undefined: a server whose certificate this machine trusts. */
  readonly tls?: TlsPeer | undefined;
}

export interface Reply {
  readonly status: number;
  /** Parsed where it is JSON, else the text. */
  readonly body: unknown;
  /** The header X-Weight-Version; undefined: it was not sent. */
  readonly label: string | undefined;
}

/** No answer, or not all of one. The message begins with the call. */
export class CallError extends Error {}

type Call = `${"GET" | "POST"} /${string}`;

export class EngineApi implements AsyncDisposable {
  readonly #options: ApiOptions;
  readonly #agent: Agent;
  readonly #scope: AbortSignal | undefined;

  constructor(options: ApiOptions, agent = newAgent(options.tls), scope?: AbortSignal) {
    this.#options = options;
    this.#agent = agent;
    this.#scope = scope;
  }

  get timeoutMs(): number {
    return this.#options.timeoutMs;
  }

  /** The same engine; the signal, too, ends every call that is made through it. */
  within(scope: AbortSignal): EngineApi {
    const both = this.#scope === undefined ? scope : AbortSignal.any([this.#scope, scope]);
    return new EngineApi(this.#options, this.#agent, both);
  }

  get(path: `/${string}`): Promise<Reply> {
    return this.#whole(`GET ${path}`, undefined, this.timeoutMs);
  }

  /** @param body  sent as JSON; text is sent as it is, whether or not it is JSON */
  post(path: `/${string}`, body?: object | string, timeoutMs = this.timeoutMs): Promise<Reply> {
    return this.#whole(`POST ${path}`, body, timeoutMs);
  }

  /** The events of a stream that it answers with, parsed, until `[DONE]`. An answer with another status than 200 is an error. */
  async *events(path: `/${string}`, body: object): AsyncGenerator<unknown, void, undefined> {
    const call: Call = `POST ${path}`;
    using time = new Timer(this.timeoutMs);
    try {
      const response = await this.#send(call, body, time.signal);
      if (response.statusCode !== 200)
        throw new CallError(`${call} answered ${response.statusCode}: ${shown(await response.body.text())}`);
      for await (const data of dataOf(response.body.setEncoding("utf8"), time)) {
        if (data === "[DONE]") return;
        yield parsed(data);
      }
    } catch (error) {
      throw this.#explained(call, error, time);
    }
    throw new CallError(`${call}: the stream ended without [DONE]`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }

  async #whole(call: Call, body: object | string | undefined, timeoutMs: number): Promise<Reply> {
    using time = new Timer(timeoutMs);
    try {
      const response = await this.#send(call, body, time.signal);
      const label = response.headers["x-weight-version"];
      const text = await response.body.text();
      return { status: response.statusCode, body: parsed(text), label: typeof label === "string" ? label : undefined };
    } catch (error) {
      throw this.#explained(call, error, time);
    }
  }

  #send(call: Call, body: object | string | undefined, time: AbortSignal): Promise<Dispatcher.ResponseData> {
    const [method, path] = call.split(" ") as ["GET" | "POST", string];
    const { url, apiKey } = this.#options;
    return request(url + path, {
      method,
      dispatcher: this.#agent,
      signal: this.#scope === undefined ? time : AbortSignal.any([time, this.#scope]),
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  }

  #explained(call: Call, error: unknown, { signal, ms }: Timer): CallError {
    if (error instanceof CallError) return error;
    const reason = signal.aborted ? `no answer within ${ms / 1000} s` : reasonOf(error);
    return new CallError(`${call}: ${reason}`, { cause: error });
  }
}

/**
 * One connection a call: vLLM closes a connection after a 500 without saying so, and a next call on it would fail for nothing.
 * Calls have deadlines of their own.
 */
function newAgent(tls: TlsPeer | undefined): Agent {
  return new Agent({ connect: connectorTo(tls), pipelining: 0, headersTimeout: 0, bodyTimeout: 0 });
}

/** What each event of a stream holds. */
async function* dataOf(body: AsyncIterable<unknown>, time: Timer): AsyncGenerator<string, void, undefined> {
  let rest = "";
  for await (const chunk of body) {
    time.restart();
    const lines = (rest + String(chunk)).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice("data:".length).trim();
  }
}

/** Aborts `ms` after the last restart. */
class Timer implements Disposable {
  readonly ms: number;
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout;

  constructor(ms: number) {
    this.ms = ms;
    this.#timer = setTimeout(() => this.#controller.abort(), ms);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  restart(): void {
    this.#timer.refresh();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

/** What went wrong on the way, in the words of the system. */
function reasonOf(error: unknown): string {
  // A name with several addresses fails once for each of them.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error ? first.message || first.name : String(first);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** As much of a body as a line of a table has room for. */
export function shown(body: unknown): string {
  return (typeof body === "string" ? body : (JSON.stringify(body) ?? "nothing")).slice(0, 160);
}

/** What an answer's error object says. */
export function messageOf(body: unknown): string {
  const { error } = (body ?? {}) as { error?: { message?: unknown } };
  return typeof error?.message === "string" ? error.message : shown(body);
}

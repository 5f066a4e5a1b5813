// SPDX-License-Identifier: Apache-2.0
import { abortReason, type ErrorCode, sleep, type WhetstoneError } from "@whetstone/core";
import { EpisodeError, PromptTooLongError } from "../failure.ts";
import type { ChatOptions, ModelAnswer, ModelEndpoint, RolloutClient } from "../rollout-client.ts";
import type { ChatMessage } from "../types.ts";
import { ConnectionPool, type ConnectionPoolOptions } from "./connection-pool.ts";
import { type ChatPool, ConnectionError, exchange, type HttpAnswer, type HttpRequest } from "./http-exchange.ts";
import { encodeRequest, readAnswer, readError } from "./openai-wire.ts";

/** Where a session of a server with several replicas is. */
export interface ChatPlace {
  /** As `baseUrl` of ChatClientOptions. */
  readonly baseUrl: string;
  readonly pool: ChatPool;
  /** As in ChatClientOptions, of this place. */
  readonly reconnects?: (() => number) | undefined;
}

/** A session of a server with several replicas, which may go from one to another. */
export interface MovingSession {
  /** Where it is, as far as is known. */
  readonly place: () => ChatPlace;
  /** Looks where it is when the server at a place is lost, or does not have it any more; false: nowhere. */
  readonly follow: (lost: ChatPlace) => Promise<boolean>;
}

export interface ChatClientOptions {
  /** Up to and without "/v1": "http://127.0.0.1:8080/s/abc". */
  readonly baseUrl: string;
  readonly model: string;
  readonly apiKey?: string | undefined;
  /** Shared by many clients of one server. Absent: its own, which `close` ends. */
  readonly pool?: ChatPool | undefined;
  /** Calls in all when the connection fails or the server is busy (429, 503). Default 4. */
  readonly apiRetries?: number | undefined;
  /** Calls in all when the connection fails, asked at each failure. Default: as `apiRetries`. */
  readonly reconnects?: (() => number) | undefined;
  /**
   * Where its requests go instead of `baseUrl`. Given, the server is told whether it must have the session, so that it does not
   * begin another of the same name.
   */
  readonly session?: MovingSession | undefined;
}

/** A waiting call holds a connection: fewer would bound the episodes at once, and ports of one address end at 28,000. */
const CONNECTIONS = 16_384;

/** A pool for one server, `connections` at most, opened as needed. */
export function createChatPool(
  origin: string,
  connections = CONNECTIONS,
  connect?: ConnectionPoolOptions["connect"],
): ConnectionPool {
  return new ConnectionPool(origin, { connections, connect });
}

/** Talks to any server with an OpenAI-compatible `/v1/chat/completions`. One client per session: calls are numbered. */
export class ChatClient implements RolloutClient {
  readonly endpoint: ModelEndpoint;
  readonly #ownsPool: boolean;
  readonly #place: ChatPlace;
  readonly #model: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #attempts: number;
  readonly #session: MovingSession | undefined;
  /** The server has the session. */
  #hasBegun: boolean;
  #calls = 0;

  constructor(options: ChatClientOptions) {
    const url = new URL(options.baseUrl);
    this.#ownsPool = options.pool === undefined;
    const { baseUrl, pool = createChatPool(url.origin), reconnects } = options;
    this.#place = { baseUrl, pool, reconnects };
    this.#model = options.model;
    const { model, apiKey = NO_KEY } = options;
    this.endpoint = { baseUrl: `${options.baseUrl.replace(/\/$/, "")}/v1`, apiKey, model };
    this.#headers = {
      "content-type": "application/json",
      ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
    };
    this.#attempts = options.apiRetries ?? 4;
    this.#session = options.session;
    this.#hasBegun = options.apiKey !== undefined;
  }

  async chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer> {
    const answer = await this.#send(this.#request(messages, options));
    if (answer.status !== 200) throw refusal(answer);
    this.#hasBegun = true;
    return readAnswer(answer.body);
  }

  async close(): Promise<void> {
    if (this.#ownsPool) await this.#place.pool.destroy();
  }

  /** One request, wherever its session goes meanwhile. */
  async #send(request: Omit<HttpRequest, "path">): Promise<HttpAnswer> {
    for (let moves = 0; ; moves++) {
      const place = this.#session?.place() ?? this.#place;
      const { baseUrl, pool, reconnects } = place;
      const path = `${new URL(baseUrl).pathname.replace(/\/$/, "")}/v1/chat/completions`;
      const answer = await sendWithRetry(pool, { ...request, path }, this.#attempts, reconnects).catch(
        (error: unknown) => {
          if (error instanceof ConnectionError) return error;
          throw error;
        },
      );
      const isLost = answer instanceof ConnectionError || isNotHere(answer);
      if (isLost && moves < MAX_MOVES && (await this.#session?.follow(place)) === true) continue;
      if (answer instanceof ConnectionError) throw answer;
      return answer;
    }
  }

  #request(messages: readonly ChatMessage[], options: ChatOptions): Omit<HttpRequest, "path"> {
    return {
      method: "POST",
      headers: {
        ...this.#headers,
        ...(this.#session !== undefined && this.#hasBegun && { [BEGUN]: "true" }),
        "x-whetstone-role": options.role,
        "x-whetstone-timeout-ms": String(Math.max(1, Math.ceil(Math.min(options.remainingMs, MAX_TIMEOUT_MS)))),
        // A repeat after a lost connection joins the first request; it must not be a second sample.
        "x-whetstone-idempotency-key": `${this.#calls++}`,
      },
      body: encodeRequest(options.model ?? this.#model, messages, options),
      signal: options.signal,
    };
  }
}

/** Says to a gateway that it must have the request's session. */
export const BEGUN = "x-whetstone-begun";
/** Of one request. */
const MAX_MOVES = 4;
/** Most OpenAI clients refuse to start without one. */
const NO_KEY = "none";
/** What servers accept in a header that becomes a timer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Repeats what cannot have had an effect the caller saw: a lost connection, 429 and 503. Waits inside the signal.
 * @param reconnects  calls in all when connections are lost, asked at each loss; absent: `attempts`
 */
export async function sendWithRetry(
  pool: ChatPool,
  request: HttpRequest,
  attempts: number,
  reconnects: () => number = () => attempts,
): Promise<HttpAnswer> {
  for (let attempt = 1; ; attempt += 1) {
    if (request.signal.aborted) throw abortReason(request.signal);
    const outcome = await exchange(pool, request).catch((error: unknown) => {
      if (error instanceof ConnectionError && attempt < reconnects()) return undefined;
      throw error;
    });
    // A server that leaves is not waited for where others are.
    const most = reconnects() < attempts && isLeaving(outcome) ? 1 : attempts;
    if (outcome && !(isBusy(outcome) && attempt < most)) return outcome;
    await sleep(pauseMs(attempt, outcome), request.signal);
  }
}

function isBusy({ status }: HttpAnswer): boolean {
  return status === 429 || status === 503;
}

function isLeaving(answer: HttpAnswer | undefined): boolean {
  return answer?.status === 503 && readError(answer.body).code === LEAVING;
}

/** What a gateway answers that is about to end, to whoever would begin a session there. */
const LEAVING = "gateway_leaving";

/** Whether a gateway says that it has no such session. */
function isNotHere({ status, body }: HttpAnswer): boolean {
  return status === 404 && readError(body).code === NOT_HERE;
}

/** What a gateway answers that does not have a session which was begun. */
const NOT_HERE = "session_not_here";

function pauseMs(attempt: number, answer: HttpAnswer | undefined): number {
  const asked = Number(answer?.headers["retry-after"]) * 1000;
  const own = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
  return asked > 0 ? Math.min(asked, LONGEST_PAUSE_MS) : own;
}

const CODE_FAILURES: Readonly<Record<string, ErrorCode>> = { [LEAVING]: "HANDED_BACK", [NOT_HERE]: "DATA_LOSS" };
const STATUS_FAILURES: Readonly<Record<number, ErrorCode>> = {
  408: "DEADLINE_EXCEEDED",
  409: "CONFLICT",
  410: "CONFLICT",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

/** The one seam from HTTP statuses to failure classes. */
export function refusal({ status, body }: HttpAnswer): WhetstoneError {
  const { code, message } = readError(body);
  const text = `the model server answered ${status}: ${message}`;
  if (code === "context_length_exceeded") return new PromptTooLongError(text);
  const isUnknownModel = status === 404 && code === "model_not_found";
  const failure = CODE_FAILURES[code] ?? (isUnknownModel ? "NOT_FOUND" : STATUS_FAILURES[status]);
  if (failure !== undefined) return new EpisodeError("INFRASTRUCTURE", text, { code: failure });
  if (status >= 500) return new EpisodeError("INFRASTRUCTURE", text, { code: "ENGINE_FAILED" });
  return new EpisodeError("TASK", text, { code: "INVALID_ARGUMENT" });
}

// SPDX-License-Identifier: Apache-2.0
import { abortReason, sleep, type WhetstoneError } from "@whetstone/core";
import { EpisodeError, PromptTooLongError } from "../failure.ts";
import type { ChatOptions, ModelAnswer, ModelEndpoint, RolloutClient } from "../rollout-client.ts";
import type { ChatMessage } from "../types.ts";
import { ConnectionPool, type ConnectionPoolOptions } from "./connection-pool.ts";
import { type ChatPool, ConnectionError, exchange, type HttpAnswer, type HttpRequest } from "./http-exchange.ts";
import { encodeRequest, readAnswer, readError } from "./openai-wire.ts";

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
  readonly #pool: ChatPool;
  readonly #ownsPool: boolean;
  readonly #path: string;
  readonly #model: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #attempts: number;
  readonly #reconnects: (() => number) | undefined;
  #calls = 0;

  constructor(options: ChatClientOptions) {
    const url = new URL(options.baseUrl);
    this.#ownsPool = options.pool === undefined;
    this.#pool = options.pool ?? createChatPool(url.origin);
    this.#path = `${url.pathname.replace(/\/$/, "")}/v1/chat/completions`;
    this.#model = options.model;
    const { model, apiKey = NO_KEY } = options;
    this.endpoint = { baseUrl: `${options.baseUrl.replace(/\/$/, "")}/v1`, apiKey, model };
    this.#headers = {
      "content-type": "application/json",
      ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
    };
    this.#attempts = options.apiRetries ?? 4;
    this.#reconnects = options.reconnects;
  }

  async chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer> {
    const request = this.#request(messages, options);
    const answer = await sendWithRetry(this.#pool, request, this.#attempts, this.#reconnects);
    if (answer.status === 200) return readAnswer(answer.body);
    throw refusal(answer);
  }

  async close(): Promise<void> {
    if (this.#ownsPool) await this.#pool.destroy();
  }

  #request(messages: readonly ChatMessage[], options: ChatOptions): HttpRequest {
    return {
      method: "POST",
      path: this.#path,
      headers: {
        ...this.#headers,
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

function pauseMs(attempt: number, answer: HttpAnswer | undefined): number {
  const asked = Number(answer?.headers["retry-after"]) * 1000;
  const own = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
  return asked > 0 ? Math.min(asked, LONGEST_PAUSE_MS) : own;
}

/** The one seam from HTTP statuses to failure classes. */
export function refusal({ status, body }: HttpAnswer): WhetstoneError {
  const { code, message } = readError(body);
  const text = `the model server answered ${status}: ${message}`;
  if (code === "context_length_exceeded") return new PromptTooLongError(text);
  if (code === LEAVING) return new EpisodeError("INFRASTRUCTURE", text, { code: "HANDED_BACK" });
  if (status === 429) return new EpisodeError("INFRASTRUCTURE", text, { code: "RESOURCE_EXHAUSTED" });
  if (status === 504 || status === 408) return new EpisodeError("INFRASTRUCTURE", text, { code: "DEADLINE_EXCEEDED" });
  if (status >= 500)
    return new EpisodeError("INFRASTRUCTURE", text, { code: status === 503 ? "UNAVAILABLE" : "ENGINE_FAILED" });
  if (status === 404 && code === "model_not_found")
    return new EpisodeError("INFRASTRUCTURE", text, { code: "NOT_FOUND" });
  if (status === 409 || status === 410) return new EpisodeError("INFRASTRUCTURE", text, { code: "CONFLICT" });
  return new EpisodeError("TASK", text, { code: "INVALID_ARGUMENT" });
}

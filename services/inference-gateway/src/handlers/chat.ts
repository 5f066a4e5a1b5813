// SPDX-License-Identifier: Apache-2.0
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError, badField } from "../domain/api-error.ts";
import { CallScope } from "../domain/call-scope.ts";
import { parseChatRequest } from "../domain/chat-request.ts";
import type { ChatRequest } from "../domain/chat-request.ts";
import { completeChat } from "../domain/chat-service.ts";
import type { ChatAnswer, ChatCall, Codec, OnPiece } from "../domain/chat-service.ts";
import type { Session } from "../domain/session.ts";
import { completionBody } from "./chat-answer.ts";
import { ChatStream } from "./chat-stream.ts";
import { codecOf, openSession, parseJsonBody } from "./http-context.ts";
import type { HttpContext } from "./http-context.ts";
import { SharedCalls } from "./idempotency.ts";
import { sendError, sendJson } from "./send.ts";

interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly scope: CallScope;
}

/** `POST /v1/chat/completions`, streamed or whole. Writes to the raw response: fastify's own way costs a third more. */
export class ChatHandler {
  readonly #context: HttpContext;
  readonly #shared = new WeakMap<Session, SharedCalls>();
  readonly #idPrefix: string;
  #count = 0;

  /** @param idPrefix makes request ids unique across restarts, which engines rely on. */
  constructor(context: HttpContext, idPrefix: string) {
    this.#context = context;
    this.#idPrefix = idPrefix;
  }

  async handle(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.hijack();
    const startedMs = performance.now();
    const scope = new CallScope();
    const onClose = (): void => {
      scope.cancel(CLIENT_LEFT);
    };
    reply.raw.once("close", onClose);
    const code = await this.#answer(request, reply, scope);
    reply.raw.off("close", onClose);
    this.#context.metrics.request(code, (performance.now() - startedMs) / 1000);
  }

  /** Answers one way or another; the status that went out. */
  async #answer(request: FastifyRequest, reply: FastifyReply, scope: CallScope): Promise<number> {
    let timer: NodeJS.Timeout | undefined;
    try {
      const timeoutMs = timeoutOf(request, this.#context.requestTimeoutMs);
      timer = setTimeout(() => {
        scope.cancel(tooLate(timeoutMs));
      }, timeoutMs);
      const chatRequest = parseChatRequest(parseJsonBody(this.#context, request));
      const codec = codecOf(this.#context, chatRequest.model);
      const call = this.#callOf(request, chatRequest);
      if (chatRequest.stream) await this.#stream({ request, reply, scope }, call, codec);
      else
        sendJson(reply.raw, 200, completionBody(chatRequest, await this.#complete(request, call, scope, null), codec));
      return 200;
    } catch (error) {
      if (!(error instanceof ApiError)) this.#context.logError("chat_failed", error);
      return sendError(reply.raw, error);
    } finally {
      clearTimeout(timer);
    }
  }

  #callOf(request: FastifyRequest, chatRequest: ChatRequest): ChatCall {
    const role = request.headers["x-whetstone-role"];
    return {
      request: chatRequest,
      session: openSession(this.#context, request),
      role: typeof role === "string" && role !== "" ? role : "agent",
      requestId: `chatcmpl-${this.#idPrefix}${String(this.#count++)}`,
    };
  }

  async #stream({ request, reply, scope }: Exchange, call: ChatCall, codec: Codec): Promise<void> {
    const stream = new ChatStream(reply.raw, call, codec, this.#context.chat.now());
    try {
      stream.end(
        await this.#complete(request, call, scope, (text, tokens) => {
          stream.piece(text, tokens);
        }),
      );
    } catch (error) {
      if (stream.started) stream.fail(error);
      throw error;
    }
  }

  #complete(request: FastifyRequest, call: ChatCall, scope: CallScope, onPiece: OnPiece | null): Promise<ChatAnswer> {
    const key = request.headers["x-whetstone-idempotency-key"];
    const { chat } = this.#context;
    if (typeof key !== "string" || call.session === null) return completeChat(chat, call, scope, onPiece);
    const shared = this.#shared.get(call.session) ?? new SharedCalls();
    this.#shared.set(call.session, shared);
    // Clients number their calls, and the roles of one session have a client each.
    const ownKey = `${call.role}/${key}`;
    // A joined stream gets its text at the end, in one piece: the first one's pieces are gone.
    return shared.run(ownKey, request.body as string, scope, (own) => completeChat(chat, call, own, null));
  }
}

const CLIENT_LEFT = new ApiError(499, "client_closed_request", "the client closed the connection");

function tooLate(timeoutMs: number): ApiError {
  const message = `no answer within ${String(timeoutMs)} ms (header x-whetstone-timeout-ms)`;
  return new ApiError(504, "deadline_exceeded", message, { retryAfterS: 1 });
}

/** Longest wait that a timer can hold. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

function timeoutOf(request: FastifyRequest, defaultMs: number): number {
  const header = request.headers["x-whetstone-timeout-ms"];
  if (header === undefined) return defaultMs;
  const ms = Number(header);
  if (!Number.isInteger(ms) || ms < 1)
    throw badField("x-whetstone-timeout-ms", "must be a whole number of milliseconds");
  return Math.min(ms, MAX_TIMEOUT_MS);
}

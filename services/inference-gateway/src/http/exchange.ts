// SPDX-License-Identifier: Apache-2.0
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError, badField } from "../completion/api-error.ts";
import { CallScope } from "../completion/call-scope.ts";
import { agreeOn } from "../completion/client-sampling.ts";
import { complete } from "../completion/complete.ts";
import { completeMany } from "../completion/complete-many.ts";
import type { Codec, Completion, CompletionCall, OnPiece } from "../completion/complete.ts";
import { NOTHING_EARLIER } from "../completion/earlier-answers.ts";
import type { CompletionRequest } from "../completion/request.ts";
import type { Dialect, ErrorForm } from "../dialects/dialect.ts";
import { wireError } from "../dialects/openai-error.ts";
import { codecOf, parseJsonBody } from "./http-context.ts";
import type { Access, AccessOf, HttpContext } from "./http-context.ts";
import { placeCall, type PlacedCall } from "./place-call.ts";
import { sendError, sendJson, toApiError } from "./send.ts";

interface Request {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly scope: CallScope;
  readonly accessOf: AccessOf;
}

/** Answers the requests of one dialect, streamed or whole. Writes to the raw response: fastify's own way costs a third more. */
export class Exchange {
  readonly #context: HttpContext;
  readonly #dialect: Dialect;
  readonly #idPrefix: string;
  #count = 0;

  /** @param idPrefix makes request ids unique across restarts, which engines rely on. */
  constructor(context: HttpContext, dialect: Dialect, idPrefix: string) {
    this.#context = context;
    this.#dialect = dialect;
    this.#idPrefix = `${dialect.idPrefix}${idPrefix}`;
  }

  get path(): string {
    return this.#dialect.path;
  }

  get error(): ErrorForm {
    return this.#dialect.error;
  }

  /** @param accessOf  whose call it is, as the port has it */
  async handle(request: FastifyRequest, reply: FastifyReply, accessOf: AccessOf): Promise<void> {
    reply.hijack();
    const startedMs = performance.now();
    const scope = new CallScope();
    const onClose = (): void => {
      scope.cancel(CLIENT_LEFT);
    };
    reply.raw.once("close", onClose);
    const code = await this.#answer({ request, reply, scope, accessOf });
    reply.raw.off("close", onClose);
    this.#context.metrics.request(code, (performance.now() - startedMs) / 1000);
  }

  /** Answers one way or another; the status that went out. */
  async #answer(asked: Request): Promise<number> {
    const { request, reply, scope, accessOf } = asked;
    let timer: NodeJS.Timeout | undefined;
    try {
      const timeoutMs = timeoutOf(request, this.#context.requestTimeoutMs);
      timer = setTimeout(() => {
        scope.cancel(tooLate(timeoutMs, scope.waitsFor));
      }, timeoutMs);
      const body = parseJsonBody(this.#context, request);
      const access = accessOf(this.#context, request);
      using _use = usedBy(access);
      const parsed = this.#dialect.parse(body, access.session?.earlier ?? NOTHING_EARLIER);
      using place = placeCall(this.#context, access, parsed);
      if (place.weights !== undefined) reply.raw.setHeader("x-whetstone-weights", place.weights);
      await this.#answerPlaced(asked, this.#callOf(asked, parsed, place), place);
      return 200;
    } catch (error) {
      if (!(error instanceof ApiError)) this.#context.logError("chat_failed", error);
      return sendError(reply.raw, error, this.#dialect.error);
    } finally {
      clearTimeout(timer);
    }
  }

  async #answerPlaced(asked: Request, call: CompletionCall, place: PlacedCall): Promise<void> {
    const { request } = call;
    const codec = codecOf(this.#context, place.policy);
    if (request.stream) place.answered(await this.#stream(asked, call, codec));
    else {
      const completions = await this.#completeAll(asked, call);
      place.answered(completions);
      sendJson(asked.reply.raw, 200, this.#dialect.answer(request, completions, codec));
    }
  }

  #callOf({ request, reply }: Request, parsed: CompletionRequest, place: PlacedCall): CompletionCall {
    const { session, policy, caller } = place;
    const role = request.headers["x-whetstone-role"];
    const { sampling, alteredBy, overridden } = agreeOn(parsed.sampling, session?.terms);
    if (overridden.length > 0) reply.raw.setHeader("x-whetstone-overridden", overridden.join(", "));
    return {
      request: { ...parsed, sampling },
      policy,
      caller,
      alteredBy,
      session,
      role: typeof role === "string" && role !== "" ? role : undefined,
      requestId: `${this.#idPrefix}${this.#count++}`,
    };
  }

  async #stream(asked: Request, call: CompletionCall, codec: Codec): Promise<Completion[]> {
    const stream = this.#dialect.stream(asked.reply.raw, call, codec, this.#context.chat.now());
    try {
      const completions = await this.#completeAll(asked, call, (index) => (parts, tokens) => {
        stream.piece(parts, tokens, index);
      });
      stream.end(completions);
      return completions;
    } catch (error) {
      if (stream.started) stream.fail(toApiError(error));
      throw error;
    }
  }

  /** As many answers as asked for, side by side. */
  async #completeAll(
    asked: Request,
    call: CompletionCall,
    onPieceOf?: (index: number) => OnPiece,
  ): Promise<Completion[]> {
    const { n = 1 } = call.request;
    if (n === 1) return [await this.#complete(asked, call, onPieceOf?.(0))];
    return await completeMany(this.#context.chat, call, { n, scope: asked.scope, onPieceOf });
  }

  #complete({ request, scope }: Request, call: CompletionCall, onPiece?: OnPiece): Promise<Completion> {
    const key = request.headers["x-whetstone-idempotency-key"];
    const { chat } = this.#context;
    if (typeof key !== "string" || call.session === undefined) return complete(chat, call, scope, onPiece);
    // Clients number their calls, and the roles of one session have a client each.
    const ownKey = `${this.#dialect.path} ${call.role ?? ""}/${key}`;
    // A joined stream gets its text at the end, in one piece: the first one's pieces are gone.
    return this.#context.shared
      .of(call.session)
      .run(ownKey, request.body as string, scope, (own) => complete(chat, call, own));
  }
}

/** The session stays here until the call is answered. */
function usedBy({ session }: Access): Disposable {
  session?.begin();
  return { [Symbol.dispose]: () => session?.end() };
}

/** The error form of the dialect that is spoken at a path; elsewhere OpenAI's. */
export function errorFormAt(exchanges: readonly Exchange[]): (path: string) => ErrorForm {
  return (path) => exchanges.find((exchange) => path.endsWith(exchange.path))?.error ?? wireError;
}

const CLIENT_LEFT = new ApiError("CANCELLED", "client_closed_request", "the client closed the connection");

function tooLate(timeoutMs: number, waitedFor: string): ApiError {
  const message = `no answer within ${timeoutMs} ms (header x-whetstone-timeout-ms); the call waited for ${waitedFor}`;
  return new ApiError("DEADLINE_EXCEEDED", "deadline_exceeded", message, { retryAfterS: 1 });
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

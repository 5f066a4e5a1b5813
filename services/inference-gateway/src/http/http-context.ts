// SPDX-License-Identifier: Apache-2.0
import type { FastifyRequest } from "fastify";
import { ApiError, badField } from "../completion/api-error.ts";
import type { CompletionDeps, Codec } from "../completion/complete.ts";
import { refuseLongBody } from "../completion/prompt-bounds.ts";
import type { SessionTable } from "../sessions/session-table.ts";
import type { SharedBySession } from "../sessions/shared-calls.ts";
import type { Session } from "../sessions/session.ts";
import type { LoadReporter } from "../fleet/load-report.ts";
import type { FeedbackBox } from "../served/feedback-box.ts";
import type { KeyHolder, ServedNames } from "../served/served-names.ts";
import type { Forwarder } from "../peers/forward.ts";
import type { GatewayMetrics } from "./metrics.ts";
import type { PeerRelay } from "../peers/peer-relay.ts";

/** What the HTTP handlers need. */
export interface HttpContext {
  readonly chat: CompletionDeps;
  readonly sessions: SessionTable;
  /** Answers to requests that may be repeated. */
  readonly shared: SharedBySession;
  readonly served: ServedNames;
  readonly feedback: FeedbackBox;
  readonly metrics: GatewayMetrics;
  readonly load: LoadReporter;
  /** Absent: there are no other replicas. */
  readonly peers?: PeerRelay | undefined;
  /** The way to them. */
  readonly forwarder: Forwarder;
  /** Longest time from receipt to answer when the client names none, milliseconds. */
  readonly requestTimeoutMs: number;
  readonly logError: (event: string, error: unknown) => void;
}

export type SessionParams = { session?: string };

/** Whose call it is. Neither: it is anonymous. */
export interface Access {
  readonly session?: Session | undefined;
  /** By the key of a served name. */
  readonly holder?: KeyHolder | undefined;
}

/** @throws ApiError 401 */
export type AccessOf = (context: HttpContext, request: FastifyRequest) => Access;

const MAX_SESSION_CHARS = 256;
/** Of every key that a gateway issues. */
export const KEY_PREFIX = "ws-";

/**
 * The session that a path or a key names; undefined: the call is anonymous. Some clients drop path prefixes and others cannot
 * set keys, so either names a session, and where both come they must agree. A key that was not issued, or whose episode has
 * ended, gets no answer: a shared one would make one tree of many episodes.
 */
export function openSession({ sessions, chat }: HttpContext, request: FastifyRequest): Access {
  const name = (request.params as SessionParams).session;
  const key = keyOf(request);
  if (name === undefined && key === undefined) return {};
  const mayOpen = name === undefined || key === undefined || opensNamed(sessions.get(name), key);
  if (!mayOpen) throw unknownKey();
  const session =
    name === undefined ? sessions.openByKey(key ?? "", chat.now()) : openNamed(sessions, name, chat.now());
  if (session === undefined) throw unknownKey();
  return { session };
}

/** An issued key never begins another session than its own: the replica that issued it may have been restarted. */
function opensNamed(session: Session | undefined, key: string): boolean {
  return session?.key === key || (session?.key === undefined && !key.startsWith(KEY_PREFIX));
}

/** As `openSession`, where nothing but a key opens: of an episode, or of a served name. @throws ApiError 401. */
export function openKeyed({ sessions, served, chat }: HttpContext, request: FastifyRequest): Access {
  const key = keyOf(request);
  if (key === undefined) throw noKey();
  const session = sessions.openByKey(key, chat.now());
  if (session !== undefined) return { session };
  const holder = served.find(key);
  if (holder === undefined) throw noKey();
  return { holder };
}

export function openNamed(sessions: SessionTable, name: string, nowMs: number): Session {
  if (name.length > MAX_SESSION_CHARS) throw badField("session", `at most ${MAX_SESSION_CHARS} characters`);
  return sessions.open(name, nowMs);
}

function unknownKey(): ApiError {
  const message = "this key was not issued for the session, or its episode has ended; POST /s/<session>/key issues one";
  return new ApiError("UNAUTHENTICATED", "invalid_api_key", message, { status: 401 });
}

function noKey(): ApiError {
  const message =
    "send the key of the episode that you play, which ends with it, or of a served policy (authorization: Bearer, or x-api-key)";
  return new ApiError("UNAUTHENTICATED", "invalid_api_key", message, { status: 401 });
}

/** Anthropic's clients have a header of their own. */
export function keyOf({ headers }: FastifyRequest): string | undefined {
  const own = headers["x-api-key"];
  return typeof own === "string" ? bearerKey(`Bearer ${own}`) : bearerKey(headers.authorization);
}

/** Clients that must send a key but have none send "EMPTY" or "none"; those are not sessions. */
function bearerKey(header: string | undefined): string | undefined {
  if (header === undefined || !/^bearer /i.test(header)) return undefined;
  const key = header.slice("bearer ".length).trim();
  return key === "" || /^(empty|none)$/i.test(key) ? undefined : key;
}

/** Deeper values would end template and encoder with a stack overflow. */
const MAX_DEPTH = 64;

/** The body as JSON. @throws ApiError 400. */
export function parseJsonBody({ chat }: HttpContext, request: FastifyRequest): unknown {
  const text = (request.body ?? "") as string; // None came, and no content type.
  refuseLongBody(text.length, chat.fleet.longestContext());
  const body = parse(text);
  refuseDeep(body, MAX_DEPTH);
  return body;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError("INVALID_ARGUMENT", "invalid_json", "the body is not JSON", { param: "body" });
  }
}

function refuseDeep(value: unknown, depth: number): void {
  if (typeof value !== "object" || value === null) return;
  if (depth === 0) throw badField("body", `values may be nested ${MAX_DEPTH} deep`);
  if (Array.isArray(value)) for (const inner of value) refuseDeep(inner, depth - 1);
  else for (const name in value) refuseDeep((value as Record<string, unknown>)[name], depth - 1);
}

/** The codec of a policy. @throws ApiError 404 or 503. */
export function codecOf(context: HttpContext, policy: string): Codec {
  const codec = context.chat.codecs.get(policy);
  if (codec === undefined) throw context.chat.fleet.unknownPolicy(policy);
  return codec;
}

// SPDX-License-Identifier: Apache-2.0
import { ConfigError, type ErrorCode, isAbort, WhetstoneError } from "@whetstone/core";

/** The API server's own account of a failure (meta/v1 Status). */
export interface Status {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly field?: string; readonly message?: string; readonly reason?: string }[];
  };
}

const CODES: Record<number, ErrorCode> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  405: "UNIMPLEMENTED",
  406: "UNIMPLEMENTED",
  408: "DEADLINE_EXCEEDED",
  409: "CONFLICT",
  410: "FAILED_PRECONDITION",
  413: "INVALID_ARGUMENT",
  415: "UNIMPLEMENTED",
  422: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  500: "UNAVAILABLE",
  502: "UNAVAILABLE",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

/**
 * An answer that is no success. `context.status` is the HTTP status, `context.reason` the API server's, `context.retryAfterMs`
 * what it asked for, if it did.
 */
export function answerError(what: string, status: number, body: string, retryAfter?: string): WhetstoneError {
  const told = statusOf(body);
  const retryAfterMs = retryAfterOf(told, retryAfter);
  const context = { status, reason: told.reason, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  const message = `${what}: ${told.message ?? `the API server answered ${status}`}`;
  const violations = (told.details?.causes ?? []).map((cause) => ({
    path: cause.field ?? "",
    reason: cause.message ?? cause.reason ?? "",
  }));
  if (status === 422 && violations.length > 0) return new ConfigError(violations, { context });
  const code = told.reason === "AlreadyExists" ? "ALREADY_EXISTS" : (CODES[status] ?? "INTERNAL");
  return new WhetstoneError(code, message, { context, ...(code === "CONFLICT" && { retry: "safe" }) });
}

/** A call that got no answer. */
export function transportError(what: string, cause: unknown): WhetstoneError {
  if (cause instanceof WhetstoneError) return cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  if (isAbort(cause)) return new WhetstoneError("CANCELLED", `${what}: ${text}`, { cause });
  const isSlow = cause instanceof Error && /timeout/i.test(cause.name);
  return new WhetstoneError(isSlow ? "DEADLINE_EXCEEDED" : "UNAVAILABLE", `${what}: ${text}`, { cause });
}

export function httpStatus(error: unknown): number | undefined {
  return error instanceof WhetstoneError ? (error.context["status"] as number | undefined) : undefined;
}

export function retryAfterMs(error: unknown): number | undefined {
  return error instanceof WhetstoneError ? (error.context["retryAfterMs"] as number | undefined) : undefined;
}

/** What proxies and aggregated servers send is not always a Status. */
function statusOf(body: string): Status {
  try {
    const parsed = JSON.parse(body) as Status;
    return typeof parsed === "object" ? parsed : {};
  } catch {
    return body.trim() === "" ? {} : { message: body.trim().slice(0, 300) };
  }
}

function retryAfterOf(told: Status, header: string | undefined): number | undefined {
  const seconds = Number(header ?? told.details?.retryAfterSeconds ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}

// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import { ApiError } from "../completion/api-error.ts";
import type { ErrorForm } from "../dialects/dialect.ts";
import { wireError } from "../dialects/openai-error.ts";

/** Sends a JSON text. */
export function sendJson(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** Sends an error; what is not an ApiError leaves as "internal error". @returns the status. */
export function sendError(response: ServerResponse, error: unknown, form: ErrorForm = wireError): number {
  const known = toApiError(error);
  const { status, body } = form(known);
  if (response.destroyed || response.headersSent) return status;
  if (known.retryAfterS !== undefined) response.setHeader("retry-after", String(known.retryAfterS));
  sendJson(response, status, JSON.stringify(body));
  return status;
}

/** Errors of fastify itself (body too large, bad headers) keep their status. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { statusCode: status = 500, message = "bad request" } = error as { statusCode?: number; message?: string };
  if (!(status >= 400 && status < 500)) return new ApiError("INTERNAL", "internal_error", "internal error");
  return new ApiError("INVALID_ARGUMENT", status === 413 ? "body_too_large" : "bad_request", message, { status });
}

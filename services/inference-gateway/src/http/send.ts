// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import { ApiError } from "../completion/api-error.ts";
import { errorBody } from "../dialects/openai-chat/error.ts";

/** Sends a JSON text. */
export function sendJson(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** Sends an error; what is not an ApiError leaves as "internal error". @returns the status. */
export function sendError(
  response: ServerResponse,
  error: unknown,
  form: (error: ApiError) => unknown = errorBody,
): number {
  const known = toApiError(error);
  if (response.destroyed || response.headersSent) return known.status;
  if (known.retryAfterS !== null) response.setHeader("retry-after", String(known.retryAfterS));
  sendJson(response, known.status, JSON.stringify(form(known)));
  return known.status;
}

/** Errors of fastify itself (body too large, bad headers) keep their status. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { statusCode, message } = error as { statusCode?: number; message?: string };
  const ours = typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
  if (!ours) return new ApiError(500, "internal_error", "internal error");
  return new ApiError(statusCode, statusCode === 413 ? "body_too_large" : "bad_request", message ?? "bad request");
}

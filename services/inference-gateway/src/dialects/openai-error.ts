// SPDX-License-Identifier: Apache-2.0
import type { ApiError } from "../completion/api-error.ts";
import type { WireError } from "./dialect.ts";
import { httpStatus } from "./http-status.ts";

/** An error as OpenAI's clients expect it; routes of no dialect answer so too. */
export function wireError(error: ApiError): WireError {
  const { reason, message, param } = error;
  const status = httpStatus(error);
  return { status, body: { error: { message, type: typeOf(status), param: param ?? null, code: reason } } };
}

function typeOf(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

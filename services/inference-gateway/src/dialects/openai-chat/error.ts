// SPDX-License-Identifier: Apache-2.0
import type { ErrorCode } from "@whetstone/core";
import type { ApiError } from "../../completion/api-error.ts";
import type { WireError } from "../dialect.ts";

/** HTTP statuses; any other code is the gateway's own fault. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  INVALID_ARGUMENT: 400,
  UNKNOWN_SETTING: 400,
  UNSUPPORTED_SETTING: 400,
  NOT_FOUND: 404,
  CONFLICT: 422,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  ENGINE_FAILED: 502,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
};

/** An error as OpenAI's clients expect it; routes of no dialect answer so too. */
export function wireError({ code, reason, message, param, status = STATUS[code] ?? 500 }: ApiError): WireError {
  return { status, body: { error: { message, type: typeOf(status), param: param ?? null, code: reason } } };
}

function typeOf(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

// SPDX-License-Identifier: Apache-2.0
import type { ApiError } from "../../completion/api-error.ts";
import type { WireError } from "../dialect.ts";
import { httpStatus } from "../http-status.ts";

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
};

/** An error as Anthropic's clients expect it. */
export function wireError(error: ApiError): WireError {
  const status = httpStatus(error);
  const type = TYPES[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
  return { status, body: { type: "error", error: { type, message: error.message } } };
}

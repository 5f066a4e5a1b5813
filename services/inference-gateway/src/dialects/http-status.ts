// SPDX-License-Identifier: Apache-2.0
import type { ErrorCode } from "@whetstone/core";
import type { ApiError } from "../completion/api-error.ts";

/** Any other code is the gateway's own fault. */
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

/** The HTTP status of an error, the same in every dialect. */
export function httpStatus({ code, status }: ApiError): number {
  return status ?? STATUS[code] ?? 500;
}

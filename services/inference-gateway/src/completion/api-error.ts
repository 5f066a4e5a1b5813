// SPDX-License-Identifier: Apache-2.0
import { type ErrorCode, WhetstoneError } from "@whetstone/core";

interface ApiErrorOptions {
  readonly param?: string | undefined;
  readonly retryAfterS?: number | undefined;
  readonly status?: number | undefined;
}

/** Why a request has no answer. The client's dialect gives it its form. */
export class ApiError extends WhetstoneError {
  override readonly name = "ApiError";
  /** What the client's program reads, e.g. "queue_full": finer than the code. */
  readonly reason: string;
  /** Path of the field at fault. */
  readonly param: string | undefined;
  /** Seconds to wait before the next try; undefined: retrying does not help, or is the client's own choice. */
  readonly retryAfterS: number | undefined;
  /** The HTTP status where HTTP itself has one for it; else the code's. */
  readonly status: number | undefined;

  constructor(code: ErrorCode, reason: string, message: string, options: ApiErrorOptions = {}) {
    super(code, message);
    this.reason = reason;
    this.param = options.param;
    this.retryAfterS = options.retryAfterS;
    this.status = options.status;
  }
}

/** A field that cannot be accepted. `param` is its path, e.g. "messages.0.content". */
export function badField(param: string, reason: string): ApiError {
  return new ApiError("INVALID_ARGUMENT", "invalid_value", `${param}: ${reason}`, { param });
}

// SPDX-License-Identifier: Apache-2.0
/** An error with its HTTP status. The client's dialect gives it its form. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  /** Seconds for the Retry-After header; null: retrying does not help, or is the client's own choice. */
  readonly retryAfterS: number | null;

  constructor(status: number, code: string, message: string, options: { param?: string; retryAfterS?: number } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.param = options.param ?? null;
    this.retryAfterS = options.retryAfterS ?? null;
  }
}

/** A field that cannot be accepted. `param` is its path, e.g. "messages.0.content". */
export function badField(param: string, reason: string): ApiError {
  return new ApiError(400, "invalid_value", `${param}: ${reason}`, { param });
}

// SPDX-License-Identifier: Apache-2.0
/** An error in the shape that OpenAI clients expect: `{"error":{"message","type","param","code"}}`. */
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

  /** The body that goes to the client. */
  toBody(): { error: { message: string; type: string; param: string | null; code: string } } {
    return { error: { message: this.message, type: errorType(this.status), param: this.param, code: this.code } };
  }
}

function errorType(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** A field that cannot be accepted. `param` is its path, e.g. "messages.0.content". */
export function badField(param: string, reason: string): ApiError {
  return new ApiError(400, "invalid_value", `${param}: ${reason}`, { param });
}

// SPDX-License-Identifier: Apache-2.0
import type { ApiError } from "../../completion/api-error.ts";

/** An error as OpenAI's clients expect it; routes of no dialect answer so too. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

export function errorBody({ message, status, param, code }: ApiError): ErrorBody {
  return { error: { message, type: typeOf(status), param, code } };
}

function typeOf(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

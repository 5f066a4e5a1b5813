// SPDX-License-Identifier: Apache-2.0
// A prompt that cannot fit is refused before it is parsed, rendered or tokenised: that costs more than to sample from it.
import { ApiError } from "./api-error.ts";

/** Vocabularies have tokens of more characters, but no text fills a whole context with them. */
const MAX_CHARS_PER_TOKEN = 16;
/** JSON may write a character as six, and a message brings the names of its fields. */
const MAX_BODY_CHARS_PER_TOKEN = 64;
/** Fields that are not messages. */
const BODY_ALLOWANCE_CHARS = 65_536;

/** @param context  tokens of prompt and completion together; 0: not known. @throws ApiError 400. */
export function refuseTooLong(chars: number, context: number): void {
  if (context > 0 && chars > context * MAX_CHARS_PER_TOKEN) throw tooLong("messages", chars, context);
}

/** The same for a body that was not parsed yet. @param context  the longest of all engines. */
export function refuseLongBody(chars: number, context: number): void {
  if (context > 0 && chars > BODY_ALLOWANCE_CHARS + context * MAX_BODY_CHARS_PER_TOKEN)
    throw tooLong("body", chars, context);
}

function tooLong(param: string, chars: number, context: number): ApiError {
  const message = `${param}: ${chars} characters cannot fit into the model's context of ${context} tokens`;
  return new ApiError("INVALID_ARGUMENT", "context_length_exceeded", message, { param });
}

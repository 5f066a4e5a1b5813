// SPDX-License-Identifier: Apache-2.0
import { badField } from "../../completion/api-error.ts";
import type { CompletionRequest, RawPrompt } from "../../completion/request.ts";
import { refuseUnsupported } from "../field-rules.ts";
import { flag, includeUsage, integer, parseDrawing, parseFields, parseModel, stopStrings } from "../read-fields.ts";
import { parseLogits } from "../read-logits.ts";
import { REQUEST_FIELDS } from "./fields.ts";

/** A text completion as asked for. */
export interface TextRequest extends CompletionRequest {
  readonly includeUsage: boolean;
  readonly returnTokenIds: boolean;
}

const MAX_CHOICES = 64;
/** OpenAI's own default. */
const DEFAULT_MAX_TOKENS = 16;

/** Parses a request body. @throws ApiError 400 with the path of the bad field; fields.ts says which are refused. */
export function parseTextRequest(body: unknown): TextRequest {
  const fields = parseFields(body);
  refuseUnsupported(fields, REQUEST_FIELDS);
  return {
    model: parseModel(fields),
    messages: [],
    prompt: parsePrompt(fields["prompt"]),
    n: integer(fields, "n", 1, MAX_CHOICES) ?? 1,
    sampling: parseDrawing(fields, integer(fields, "max_tokens", 1) ?? DEFAULT_MAX_TOKENS, parseLogits(fields)),
    stops: stopStrings(fields, "stop"),
    stream: flag(fields, "stream"),
    includeUsage: includeUsage(fields["stream_options"]),
    logprobs: integer(fields, "logprobs", 0, 20),
    returnTokenIds: flag(fields, "return_token_ids"),
  };
}

/** One prompt, as text or as ids; a list of one is one, too. */
function parsePrompt(value: unknown): RawPrompt {
  const isList = Array.isArray(value) && value.length === 1 && typeof value[0] !== "number";
  const one: unknown = isList ? (value as unknown[])[0] : value;
  if (typeof one === "string" && one !== "") return one;
  const areIds = Array.isArray(one) && one.length > 0 && one.every((id) => Number.isInteger(id) && id >= 0);
  if (areIds) return one as number[];
  throw badField("prompt", "must be one text, or one array of token ids; send several prompts as several requests");
}

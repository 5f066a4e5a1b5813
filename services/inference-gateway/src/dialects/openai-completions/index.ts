// SPDX-License-Identifier: Apache-2.0
import type { Dialect } from "../dialect.ts";
import { wireError } from "../openai-error.ts";
import { completionBody } from "./answer.ts";
import { parseTextRequest, type TextRequest } from "./parse.ts";
import { TextCompletionStream } from "./stream.ts";

/** OpenAI's text completions: a prompt as it is, as text or as ids, without a chat template. */
export const openaiCompletions: Dialect<TextRequest> = {
  path: "/v1/completions",
  idPrefix: "cmpl-",
  parse: parseTextRequest,
  answer: completionBody,
  stream: (...parts) => new TextCompletionStream(...parts),
  error: wireError,
};

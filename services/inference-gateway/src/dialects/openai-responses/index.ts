// SPDX-License-Identifier: Apache-2.0
import type { Dialect } from "../dialect.ts";
import { wireError } from "../openai-error.ts";
import { responseBody } from "./answer.ts";
import { parseResponsesRequest, type ResponsesRequest } from "./parse.ts";
import { ResponsesStream } from "./stream.ts";

/** OpenAI's responses: items instead of messages, and answers that a later request goes on from by name. */
export const openaiResponses: Dialect<ResponsesRequest> = {
  path: "/v1/responses",
  idPrefix: "resp_",
  parse: parseResponsesRequest,
  answer: responseBody,
  stream: (response, call, _codec, nowMs) => new ResponsesStream(response, call, nowMs),
  error: wireError,
};

// SPDX-License-Identifier: Apache-2.0
import type { Dialect } from "../dialect.ts";
import { completionBody } from "./answer.ts";
import { wireError } from "../openai-error.ts";
import { type ChatRequest, parseChatRequest } from "./parse.ts";
import { ChatStream } from "./stream.ts";

/** OpenAI's chat completions, with vLLM's fields for token ids. */
export const openaiChat: Dialect<ChatRequest> = {
  path: "/v1/chat/completions",
  idPrefix: "chatcmpl-",
  parse: parseChatRequest,
  answer: completionBody,
  stream: (...parts) => new ChatStream(...parts),
  error: wireError,
};

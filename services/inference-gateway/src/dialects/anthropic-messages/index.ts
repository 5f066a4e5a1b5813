// SPDX-License-Identifier: Apache-2.0
import type { Dialect } from "../dialect.ts";
import { messageBody } from "./answer.ts";
import { wireError } from "./error.ts";
import { parseMessagesRequest } from "./parse.ts";
import { MessagesStream } from "./stream.ts";

/** Anthropic's messages: blocks of text, thoughts and uses of tools. */
export const anthropicMessages: Dialect = {
  path: "/v1/messages",
  idPrefix: "msg_",
  parse: parseMessagesRequest,
  answer: messageBody,
  stream: (response, call) => new MessagesStream(response, call),
  error: wireError,
};

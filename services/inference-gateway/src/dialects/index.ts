// SPDX-License-Identifier: Apache-2.0
import { anthropicMessages } from "./anthropic-messages/index.ts";
import type { Dialect } from "./dialect.ts";
import { openaiChat } from "./openai-chat/index.ts";
import { openaiCompletions } from "./openai-completions/index.ts";
import { openaiResponses } from "./openai-responses/index.ts";

/** Everything that clients may speak; a new one is a folder beside these and a line here. */
export const DIALECTS: readonly Dialect[] = [openaiChat, openaiResponses, anthropicMessages, openaiCompletions];

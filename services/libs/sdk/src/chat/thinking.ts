// SPDX-License-Identifier: Apache-2.0
import { withoutThinking } from "../agents/thinking.ts";
import type { ChatMessage } from "../types.ts";

/** The conversation without the thinking of earlier answers. The same array where there is none. */
export function promptWithoutThinking(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return messages.some(hasThinking) ? messages.map(stripped) : messages;
}

function hasThinking({ role, content, reasoning }: ChatMessage): boolean {
  return role === "assistant" && (reasoning !== undefined || /<\/?think>/.test(content));
}

function stripped(message: ChatMessage): ChatMessage {
  if (!hasThinking(message)) return message;
  const { reasoning: _, ...rest } = message;
  return { ...rest, content: withoutThinking(message.content) };
}

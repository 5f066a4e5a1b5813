// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { messageKey } from "../completion/message.ts";
import type { CompletionRequest } from "../completion/request.ts";

/**
 * Where a conversation stands between 0 and 100, evenly spread, and the same at each of its turns and at each gateway: what it
 * begins with, through the first words of its user, decides.
 */
export function conversationShare({ messages, prompt }: Pick<CompletionRequest, "messages" | "prompt">): number {
  const hash = createHash("sha256");
  if (prompt !== undefined) hash.update(JSON.stringify(prompt));
  for (const message of messages) {
    hash.update(messageKey(message)).update("\n");
    if (message.role === "user") break;
  }
  return (hash.digest().readUInt32BE() / 2 ** 32) * 100;
}

// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { TemplateMessage } from "../completion/message.ts";
import { schemasOf, type Tools } from "../completion/request.ts";

/** What tells the conversations of a session apart. */
export interface Topic {
  /** Names, sorted. */
  readonly tools: readonly string[];
  /** Digests of the first message of each. */
  readonly system: string;
  readonly question: string;
}

export function topicOf(messages: readonly TemplateMessage[], tools: Tools): Topic {
  const digestOf = (role: string): string => {
    const text = messages.find((message) => message.role === role)?.content ?? "";
    return createHash("sha256").update(text).digest("base64");
  };
  const names = [...(schemasOf(tools)?.keys() ?? [])].toSorted();
  return { tools: names, system: digestOf("system"), question: digestOf("user") };
}

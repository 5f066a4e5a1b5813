// SPDX-License-Identifier: Apache-2.0
/** A message as the chat template sees it: the client's own fields, with text parts joined and tool arguments parsed. */
export interface TemplateMessage {
  readonly role: string;
  readonly content?: string | null;
  readonly [field: string]: unknown;
}

/**
 * Two messages with the same key are the same turn. Fields that clients add when they echo an answer
 * (`refusal: null`, `annotations: []`) are left out.
 */
export function messageKey(message: TemplateMessage): string {
  const { role, content, tool_calls: calls, tool_call_id: callId, name, reasoning_content: reasoning } = message;
  if (!calls && !callId && !name && !reasoning) return `${role}\u0000${content ?? ""}`;
  return JSON.stringify([role, content, calls, callId, name, reasoning]);
}

/** The key of the message by which a client echoes an answer. */
export function answerKey(text: string): string {
  return `assistant\u0000${text}`;
}

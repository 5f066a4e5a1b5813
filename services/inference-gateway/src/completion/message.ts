// SPDX-License-Identifier: Apache-2.0
import type { Answer } from "./answer.ts";
import { type MessagePart, PARTS } from "./message-parts.ts";

/** A message as the chat template sees it: the client's own fields, with text parts joined and tool arguments parsed. */
export interface TemplateMessage {
  readonly role: string;
  readonly content?: string | null;
  /** Where it has pictures: its texts and them, in order. `content` is its text alone. */
  readonly [PARTS]?: readonly MessagePart[] | undefined;
  readonly [field: string]: unknown;
}

/**
 * Two messages with the same key are the same turn. Clients echo an answer in their own way: with fields of theirs
 * (`refusal: null`), arguments written anew, names of calls of their own, without its thoughts. So an answer is known by
 * its words and by which tools it calls with what.
 */
export function messageKey(message: TemplateMessage): string {
  const { role, content, tool_calls: calls, tool_call_id: callId, name } = message;
  if (isPlain(message)) return plainHead(message) + plainWords(message);
  if (role === "assistant") return assistantKey(content ?? "", Array.isArray(calls) ? calls.map(callKey) : []);
  return JSON.stringify([role, message[PARTS]?.map(partKey), callId, name]);
}

/** Whether this is the message's key. Of words alone none is made: they are compared where they stand. */
export function hasKey(message: TemplateMessage, key: string): boolean {
  if (!isPlain(message)) return messageKey(message) === key;
  const [head, words] = [plainHead(message), plainWords(message)];
  return key.length === head.length + words.length && key.startsWith(head) && key.slice(head.length) === words;
}

function isPlain({ role, tool_calls: calls, [PARTS]: parts }: TemplateMessage): boolean {
  return role === "assistant" ? !Array.isArray(calls) || calls.length === 0 : parts === undefined;
}

function plainHead({ role, tool_call_id: callId, name }: TemplateMessage): string {
  const isNamed = role !== "assistant" && (callId || name);
  return `${isNamed ? JSON.stringify([role, callId, name]) : role}\u0000`;
}

function plainWords({ role, content }: TemplateMessage): string {
  return role === "assistant" ? (content ?? "").trim() : (content ?? "");
}

function partKey(part: MessagePart): string | readonly [string] {
  return typeof part === "string" ? part : [part.digest];
}

/** An answer as the message that the chat template prints for it. */
export function answerMessage(answer: Answer, text: string): TemplateMessage {
  const { content, reasoning, calls } = answer;
  // Templates cannot print a call without arguments; the model sees its own text.
  if (calls.some(({ malformed }) => malformed)) return { role: "assistant", content: text };
  const thoughts = reasoning === "" ? {} : { reasoning_content: reasoning };
  if (calls.length === 0) return { role: "assistant", content, ...thoughts };
  const printed = calls.map(({ id, name, arguments: args }) => ({
    ...{ id, type: "function", function: { name, arguments: JSON.parse(args) as unknown } },
  }));
  return { role: "assistant", content: content === "" ? null : content, ...thoughts, tool_calls: printed };
}

/** The key of the message by which a client echoes an answer. */
export function answerKey({ content, calls }: Answer): string {
  return assistantKey(
    content,
    calls.map(({ name, arguments: args }) => callKey({ function: { name, arguments: args } })),
  );
}

function assistantKey(content: string, calls: readonly string[]): string {
  const words = content.trim();
  return calls.length === 0 ? `assistant\u0000${words}` : JSON.stringify(["assistant", words, calls]);
}

function callKey(call: unknown): string {
  const { name, arguments: args } = (call as { function?: { name?: unknown; arguments?: unknown } }).function ?? {};
  return `${canonical(name)}\u0000${canonical(typeof args === "string" ? parsed(args) : (args ?? {}))}`;
}

/** What is no JSON is known by its text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text.trim();
  }
}

/** JSON with sorted keys: whoever writes arguments anew may order them otherwise. */
function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, one]) => `${JSON.stringify(key)}:${canonical(one)}`).join(",")}}`;
}

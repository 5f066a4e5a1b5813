// SPDX-License-Identifier: Apache-2.0
// Pictures of messages. The chat template prints none: an engine that takes them renders the conversation itself, and says which
// ids and features it came to.
import { badField } from "./api-error.ts";
import type { TemplateMessage } from "./message.ts";
import { type GivenImage, type MessagePart, PARTS } from "./message-parts.ts";

/** What an engine made of a conversation with pictures. */
export interface Rendered {
  readonly ids: readonly number[];
  /** The engine's own words for the pictures; they go back to it as they came. */
  readonly features: unknown;
  readonly engineId: string;
}

/** A message's content, with its parts where one is a picture. */
export type PartedContent = Pick<TemplateMessage, typeof PARTS> & { readonly content: string };

/** The first picture of a conversation; undefined: there is none. */
export function firstImage(messages: readonly TemplateMessage[]): GivenImage | undefined {
  for (const message of messages) for (const part of message[PARTS] ?? []) if (typeof part !== "string") return part;
  return undefined;
}

/** The messages. @throws ApiError 400 with the path of the first picture */
export function withoutImages<Message extends TemplateMessage>(messages: Message[], why: string): Message[] {
  const image = firstImage(messages);
  if (image !== undefined) throw badField(image.path, why);
  return messages;
}

export function contentOf(parts: readonly MessagePart[]): PartedContent {
  const texts = parts.filter((part) => typeof part === "string");
  const content = texts.join("\n");
  return texts.length === parts.length ? { content } : { content, [PARTS]: parts };
}

/** The messages as OpenAI's chat API has them, which engines render. */
export function asChatMessages(messages: readonly TemplateMessage[]): object[] {
  return messages.map((message) => {
    const { tool_calls: calls } = message;
    const parts = message[PARTS];
    return {
      ...message,
      ...(parts === undefined ? {} : { content: parts.map(wirePart) }),
      ...(Array.isArray(calls) ? { tool_calls: calls.map(wireCall) } : {}),
    };
  });
}

function wirePart(part: MessagePart): object {
  if (typeof part === "string") return { type: "text", text: part };
  return { type: "image_url", image_url: { url: `data:${part.mediaType};base64,${part.data}` } };
}

/** Templates print arguments as a mapping, the API has them as text. */
function wireCall(call: { readonly function: { readonly arguments?: unknown } }): object {
  const { arguments: args } = call.function;
  return { ...call, function: { ...call.function, arguments: typeof args === "string" ? args : JSON.stringify(args) } };
}

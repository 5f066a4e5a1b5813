// SPDX-License-Identifier: Apache-2.0
import { badField } from "../../completion/api-error.ts";
import { contentOf, type PartedContent } from "../../completion/images.ts";
import type { MessagePart } from "../../completion/message-parts.ts";
import type { TemplateMessage } from "../../completion/message.ts";
import { imageOfUrl } from "../read-images.ts";
import { parseArguments } from "../read-tools.ts";

/** Parses `messages`. @throws ApiError 400 with the path of the bad field. */
export function parseMessages(value: unknown): TemplateMessage[] {
  if (!Array.isArray(value)) throw badField("messages", "must be an array of messages");
  if (value.length === 0) throw badField("messages", "must hold at least one message");
  return value.map((message, index) => parseMessage(message, `messages.${index}`));
}

function parseMessage(value: unknown, path: string): TemplateMessage {
  if (typeof value !== "object" || value === null) throw badField(path, "must be an object");
  const message = value as Record<string, unknown>;
  if (typeof message["role"] !== "string" || message["role"] === "") throw badField(`${path}.role`, "must be a string");
  const plain = typeof message["content"] === "string" && message["tool_calls"] === undefined;
  if (plain) return message as unknown as TemplateMessage;
  const parsed: Record<string, unknown> = { ...message, ...parseContent(message, path) };
  if (parsed["tool_calls"] === null) delete parsed["tool_calls"];
  else if (message["tool_calls"] !== undefined) parsed["tool_calls"] = parseToolCalls(message["tool_calls"], path);
  return parsed as unknown as TemplateMessage;
}

function parseContent(
  message: Record<string, unknown>,
  path: string,
): PartedContent | Pick<TemplateMessage, "content"> {
  const content = message["content"];
  if (typeof content === "string") return { content };
  if (Array.isArray(content)) {
    const read = message["role"] === "user" || message["role"] === "tool" ? partOf : textOf;
    return contentOf(content.map((part, i) => read(part, `${path}.content.${i}`)));
  }
  const mayBeEmpty = message["role"] === "assistant" && (content === null || content === undefined);
  if (!mayBeEmpty) throw badField(`${path}.content`, "must be a string or an array of text parts");
  return { content: message["tool_calls"] === undefined ? "" : null };
}

function partOf(part: unknown, path: string): MessagePart {
  const { type, image_url: image } = (typeof part === "object" && part !== null ? part : {}) as Record<string, unknown>;
  if (type !== "image_url") return textOf(part, path);
  return imageOfUrl((image as { url?: unknown } | null | undefined)?.url, path);
}

function textOf(part: unknown, path: string): string {
  const { type, text } = (typeof part === "object" && part !== null ? part : {}) as Record<string, unknown>;
  if (type !== "text")
    throw badField(`${path}.type`, 'only parts of type "text" are supported, and "image_url" of users and tools');
  if (typeof text !== "string") throw badField(`${path}.text`, "must be a string");
  return text;
}

/** Templates print arguments as a mapping, the OpenAI API carries them as JSON text: parse them, as vLLM does. */
function parseToolCalls(value: unknown, path: string): unknown[] {
  if (!Array.isArray(value)) throw badField(`${path}.tool_calls`, "must be an array");
  return value.map((call: unknown, i) => {
    const fields = call as { function?: { name?: unknown; arguments?: unknown } } | null;
    const target = fields?.function;
    if (typeof target?.name !== "string") {
      throw badField(`${path}.tool_calls.${i}.function.name`, "must be a string");
    }
    return { ...fields, function: { ...target, arguments: parseArguments(target.arguments) } };
  });
}

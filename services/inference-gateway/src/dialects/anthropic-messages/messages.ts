// SPDX-License-Identifier: Apache-2.0
// Messages in blocks, and the messages that they are to a chat template: results of tools are messages of their own there.
import { badField } from "../../completion/api-error.ts";
import { contentOf, type PartedContent } from "../../completion/images.ts";
import type { MessagePart } from "../../completion/message-parts.ts";
import type { TemplateMessage } from "../../completion/message.ts";
import { imageOf } from "../read-images.ts";
import type { Fields } from "../read-fields.ts";

/** Parses `messages`. @throws ApiError 400 with the path of the bad field. */
export function parseMessages(value: unknown): TemplateMessage[] {
  if (!Array.isArray(value) || value.length === 0)
    throw badField("messages", "must be an array with at least one message");
  return value.flatMap((message: unknown, i) => parseMessage(message, `messages.${i}`));
}

function parseMessage(value: unknown, path: string): TemplateMessage[] {
  if (typeof value !== "object" || value === null) throw badField(path, "must be an object");
  const { role, content } = value as Fields;
  if (role !== "user" && role !== "assistant" && role !== "system")
    throw badField(`${path}.role`, "must be user or assistant");
  if (typeof content === "string") return [{ role, content }];
  const blocks = blocksOf(content, `${path}.content`);
  return role === "assistant" ? [parseAnswer(blocks, path)] : parseUser(blocks, role, path);
}

/** Text of `system`, or of a tool's result. */
export function textOf(value: unknown, path: string): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value;
  return blocksOf(value, path)
    .map((block, i) => blockText(block, `${path}.${i}`))
    .join("\n");
}

/** Results stand before words, in the order in which they were given. */
function parseUser(blocks: readonly Fields[], role: string, path: string): TemplateMessage[] {
  const results: TemplateMessage[] = [];
  const parts: MessagePart[] = [];
  for (const [i, block] of blocks.entries()) {
    const at = `${path}.content.${i}`;
    if (block["type"] === "tool_result") results.push(parseResult(block, at));
    else parts.push(partOf(block, at));
  }
  return parts.length === 0 ? results : [...results, { role, ...contentOf(parts) }];
}

function parseResult({ tool_use_id: id, content }: Fields, path: string): TemplateMessage {
  if (typeof id !== "string") throw badField(`${path}.tool_use_id`, "must be a string");
  return { role: "tool", ...resultOf(content, `${path}.content`), tool_call_id: id };
}

function resultOf(value: unknown, path: string): PartedContent {
  if (!Array.isArray(value)) return { content: textOf(value, path) };
  return contentOf(blocksOf(value, path).map((block, i) => partOf(block, `${path}.${i}`)));
}

function partOf(block: Fields, path: string): MessagePart {
  if (block["type"] !== "image") return blockText(block, path);
  const { type, media_type: mediaType, data } = (block["source"] ?? {}) as Fields;
  if (type !== "base64") throw badField(`${path}.source.type`, 'must be "base64": nothing is fetched');
  return imageOf(mediaType, data, path);
}

function parseAnswer(blocks: readonly Fields[], path: string): TemplateMessage {
  const words: string[] = [];
  const thoughts: string[] = [];
  const calls: object[] = [];
  for (const [i, block] of blocks.entries()) {
    const at = `${path}.content.${i}`;
    if (block["type"] === "tool_use") calls.push(parseCall(block, at));
    else if (block["type"] === "thinking")
      thoughts.push(typeof block["thinking"] === "string" ? block["thinking"] : "");
    else if (block["type"] !== "redacted_thinking") words.push(blockText(block, at));
  }
  const content = words.join("\n");
  return {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    ...(thoughts.length > 0 ? { reasoning_content: thoughts.join("\n") } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function parseCall({ id, name, input }: Fields, path: string): object {
  if (typeof id !== "string") throw badField(`${path}.id`, "must be a string");
  if (typeof name !== "string") throw badField(`${path}.name`, "must be a string");
  return { id, type: "function", function: { name, arguments: malformedIn(input) ?? input ?? {} } };
}

/** What an input is that is no JSON: clients of this dialect take objects only. */
export const MALFORMED = "malformed_arguments";

function malformedIn(input: unknown): unknown {
  return (input as Fields | null | undefined)?.[MALFORMED];
}

function blocksOf(value: unknown, path: string): Fields[] {
  if (!Array.isArray(value)) throw badField(path, "must be a text or an array of blocks");
  for (const [i, block] of value.entries())
    if (typeof block !== "object" || block === null) throw badField(`${path}.${i}`, "must be an object");
  return value as Fields[];
}

function blockText({ type, text }: Fields, path: string): string {
  if (type !== "text")
    throw badField(`${path}.type`, "only text, image, thinking, tool_use and tool_result are supported");
  if (typeof text !== "string") throw badField(`${path}.text`, "must be a string");
  return text;
}

// SPDX-License-Identifier: Apache-2.0
// Items of a response, and the messages that they are to a chat template: an answer's thoughts, words and calls are items of
// their own, and one message.
import { badField } from "../../completion/api-error.ts";
import { contentOf, type PartedContent } from "../../completion/images.ts";
import type { PARTS } from "../../completion/message-parts.ts";
import { type MessagePart } from "../../completion/message-parts.ts";
import type { EarlierAnswers } from "../../completion/earlier-answers.ts";
import type { TemplateMessage } from "../../completion/message.ts";
import { imageOfUrl } from "../read-images.ts";
import { parseArguments } from "../read-tools.ts";
import type { Fields } from "../read-fields.ts";
import { templateName } from "./tools.ts";

/** A message that is being put together from items. */
interface Draft {
  role: string;
  content: string;
  [PARTS]?: readonly MessagePart[] | undefined;
  reasoning_content?: string;
  tool_calls?: object[];
  tool_call_id?: string;
}

/** Parses `input`. @throws ApiError 400 with the path of the bad field. */
export function parseInput(value: unknown, earlier: EarlierAnswers): TemplateMessage[] {
  if (typeof value === "string") return [{ role: "user", content: value }];
  if (!Array.isArray(value)) throw badField("input", "must be a text or an array of items");
  const drafts: Draft[] = [];
  for (const [i, item] of value.entries()) addItem(drafts, item, { path: `input.${i}`, earlier });
  return drafts.map((draft) => ({
    ...draft,
    content: draft.tool_calls && draft.content === "" ? null : draft.content,
  }));
}

interface Where {
  readonly path: string;
  readonly earlier: EarlierAnswers;
}

function addItem(drafts: Draft[], value: unknown, where: Where): void {
  if (typeof value !== "object" || value === null) throw badField(where.path, "must be an object");
  const item = value as Fields;
  const type = item["type"] ?? "message";
  if (type === "message") addMessage(drafts, item, where.path);
  else if (type === "function_call") addCall(drafts, item, where.path);
  else if (type === "function_call_output") addOutput(drafts, item, where.path);
  else if (type === "reasoning") addThoughts(drafts, textOf(item["content"] ?? [], `${where.path}.content`));
  else if (type === "item_reference") addReference(drafts, item, where);
  else
    throw badField(
      `${where.path}.type`,
      "must be message, function_call, function_call_output, reasoning or item_reference",
    );
}

function addMessage(drafts: Draft[], { role, content }: Fields, path: string): void {
  if (typeof role !== "string") throw badField(`${path}.role`, "must be a string");
  if (role === "assistant")
    answerDraft(drafts, ({ content: said, tool_calls: calls }) => said !== "" || calls !== undefined).content = textOf(
      content,
      `${path}.content`,
    );
  else if (role === "user") drafts.push({ role, ...partsOf(content, `${path}.content`) });
  else drafts.push({ role: role === "developer" ? "system" : role, content: textOf(content, `${path}.content`) });
}

function addCall(drafts: Draft[], { call_id: id, name, namespace, arguments: args }: Fields, path: string): void {
  if (typeof name !== "string") throw badField(`${path}.name`, "must be a string");
  if (typeof id !== "string") throw badField(`${path}.call_id`, "must be a string");
  const draft = answerDraft(drafts, () => false);
  draft.tool_calls = [
    ...(draft.tool_calls ?? []),
    { id, type: "function", function: { name: templateName(namespace, name), arguments: parseArguments(args) } },
  ];
}

function addOutput(drafts: Draft[], { call_id: id, output }: Fields, path: string): void {
  if (typeof id !== "string") throw badField(`${path}.call_id`, "must be a string");
  drafts.push({ role: "tool", ...partsOf(output, `${path}.output`), tool_call_id: id });
}

function addThoughts(drafts: Draft[], text: string): void {
  if (text === "") return;
  const draft = answerDraft(drafts, ({ content, tool_calls: calls }) => content !== "" || calls !== undefined);
  draft.reasoning_content = text;
}

/** Names of items hold the name of their response and, for a call, its number: see itemId. */
function addReference(drafts: Draft[], { id }: Fields, { path, earlier }: Where): void {
  if (typeof id !== "string") throw badField(`${path}.id`, "must be a string");
  const [, kind = "", response = "", number = ""] = /^(rs|msg|fc)_(.+?)(?:\.(\d+))?$/.exec(id) ?? [];
  const answer = earlier.answer(response);
  if (answer === undefined) throw badField(`${path}.id`, `no answer of this session has an item "${id}"`);
  if (kind === "rs") addThoughts(drafts, answer.reasoning);
  else if (kind === "msg") addMessage(drafts, { role: "assistant", content: answer.content }, path);
  else {
    const call = answer.calls[Number(number)];
    addCall(drafts, { call_id: call?.id, name: call?.name, arguments: call?.arguments }, path);
  }
}

export function itemId(kind: "rs" | "msg" | "fc", response: string, number?: number): string {
  return number === undefined ? `${kind}_${response}` : `${kind}_${response}.${number}`;
}

/** The answer that the last items belong to, or a new one. */
function answerDraft(drafts: Draft[], isFull: (draft: Draft) => boolean): Draft {
  const last = drafts.at(-1);
  if (last?.role === "assistant" && !isFull(last)) return last;
  const draft: Draft = { role: "assistant", content: "" };
  drafts.push(draft);
  return draft;
}

function textOf(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) throw badField(path, "must be a text or an array of text parts");
  return value.map((part: unknown, i) => partText(part, `${path}.${i}`)).join("\n");
}

/** Of users and tools, who may show pictures. */
function partsOf(value: unknown, path: string): PartedContent {
  if (!Array.isArray(value)) return { content: textOf(value, path) };
  return contentOf(value.map((part: unknown, i) => partOf(part, `${path}.${i}`)));
}

function partOf(part: unknown, path: string): MessagePart {
  const { type, image_url: url } = (typeof part === "object" && part !== null ? part : {}) as Fields;
  return type === "input_image" ? imageOfUrl(url, path) : partText(part, path);
}

const TEXT_PARTS = ["input_text", "output_text", "text", "reasoning_text", "summary_text"];

function partText(part: unknown, path: string): string {
  const { type, text } = (typeof part === "object" && part !== null ? part : {}) as Fields;
  if (typeof type !== "string" || !TEXT_PARTS.includes(type))
    throw badField(`${path}.type`, "only parts of text are supported, and input_image of users and tools");
  if (typeof text !== "string") throw badField(`${path}.text`, "must be a string");
  return text;
}

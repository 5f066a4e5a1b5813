// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { dataUrl, type ImagePart } from "../images.ts";
import type { ChatOptions, ModelAnswer, Usage } from "../rollout-client.ts";
import type { ChatMessage, ToolCall } from "../types.ts";

export function encodeRequest(model: string, messages: readonly ChatMessage[], options: ChatOptions): string {
  const { temperature, topP, topK, minP } = options.sampling;
  const wired = messages.every(isPlain) ? messages : messages.map(toWire);
  let text = `{"model":${JSON.stringify(model)},"messages":${JSON.stringify(wired)}`;
  text += `,"max_tokens":${options.maxTokens},"seed":${options.seed}`;
  if (temperature !== undefined) text += `,"temperature":${temperature}`;
  if (topP !== undefined) text += `,"top_p":${topP}`;
  if (topK !== undefined && topK > 0) text += `,"top_k":${topK}`;
  if (minP !== undefined && minP > 0) text += `,"min_p":${minP}`;
  return `${text}${encodeExtras(options)}}`;
}

function encodeExtras({ tools, returnTokenIds, chatTemplateKwargs }: ChatOptions): string {
  let text = "";
  if (tools !== undefined && tools.length > 0) text += `,"tools":${JSON.stringify(tools)}`;
  // vLLM's fields, and the gateway's.
  if (returnTokenIds === true) text += `,"return_token_ids":true,"logprobs":true`;
  if (chatTemplateKwargs !== undefined) text += `,"chat_template_kwargs":${JSON.stringify(chatTemplateKwargs)}`;
  return text;
}

/** Its own fields are those of the wire. */
function isPlain({ images, toolCalls, toolCallId, reasoning }: ChatMessage): boolean {
  return images === undefined && toolCalls === undefined && toolCallId === undefined && reasoning === undefined;
}

function toWire({ role, content, images = [], name, toolCalls, toolCallId, reasoning }: ChatMessage): unknown {
  return {
    role,
    content: images.length === 0 ? content : [{ type: "text", text: content }, ...images.map(toWireImage)],
    ...(name === undefined ? {} : { name }),
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
    ...(toolCalls === undefined ? {} : { tool_calls: toolCalls.map(toWireCall) }),
  };
}

function toWireImage(image: ImagePart): unknown {
  return { type: "image_url", image_url: { url: dataUrl(image) } };
}

function toWireCall({ id, name, argumentsJson }: ToolCall): unknown {
  return { id, type: "function", function: { name, arguments: argumentsJson } };
}
interface Completion {
  readonly id?: string;
  /** The gateway's name of the call in its session; other servers have none. */
  readonly call_id?: string;
  readonly choices?: readonly Choice[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number };
  readonly prompt_token_ids?: readonly number[] | null;
}

interface Choice {
  readonly message?: Message;
  readonly finish_reason?: string | null;
  readonly token_ids?: readonly number[] | null;
  readonly logprobs?: { readonly content?: readonly { readonly logprob: number }[] | null } | null;
}

interface Message {
  readonly content?: string | null;
  readonly tool_calls?: readonly WireCall[] | null;
  /** vLLM calls it so from 0.12 on; before, and elsewhere, the other. */
  readonly reasoning?: string | null;
  readonly reasoning_content?: string | null;
}

interface WireCall {
  readonly id?: string;
  readonly function?: { readonly name?: string; readonly arguments?: string };
}

/** @throws CONTRACT_VIOLATION when choices or usage are missing: budgets are counted from usage. */
export function readAnswer(body: Buffer): ModelAnswer {
  const completion = (parse(body) ?? {}) as Completion;
  const choice = completion.choices?.[0];
  const usage = usageOf(completion);
  if (choice === undefined || usage === undefined) {
    throw new WhetstoneError("CONTRACT_VIOLATION", "the model server's answer has no choices or no usage");
  }
  const { message = {}, finish_reason: reason } = choice;
  return {
    text: message.content ?? "",
    finishReason: reason ?? "stop",
    usage,
    callId: completion.call_id ?? completion.id ?? "",
    ...extrasOf(message),
    ...(completion.prompt_token_ids ? idsOf(completion.prompt_token_ids, choice) : {}),
  };
}

type Extras = Pick<ModelAnswer, "reasoning" | "toolCalls">;

function extrasOf(message: Message): Extras {
  const reasoning = message.reasoning ?? message.reasoning_content ?? "";
  const calls = message.tool_calls ?? [];
  return {
    ...(reasoning === "" ? {} : { reasoning }),
    ...(calls.length === 0 ? {} : { toolCalls: calls.map(toolCallOf) }),
  };
}

function toolCallOf({ id, function: called }: WireCall, index: number): ToolCall {
  return { id: id ?? `call_${index}`, name: called?.name ?? "", argumentsJson: called?.arguments ?? "" };
}

type Ids = Pick<ModelAnswer, "promptIds" | "completionIds" | "logprobs">;

/** All or nothing. @throws CONTRACT_VIOLATION when there is not one log-probability for each id. */
function idsOf(promptIds: readonly number[], { token_ids: completionIds, logprobs }: Choice): Ids {
  if (!completionIds) return {};
  const values = logprobs?.content?.map(({ logprob }) => logprob) ?? [];
  if (values.length !== completionIds.length) {
    const message = `the model server gave ${completionIds.length} token ids but ${values.length} log-probabilities`;
    throw new WhetstoneError("CONTRACT_VIOLATION", message);
  }
  return { promptIds, completionIds, logprobs: values };
}

function usageOf({ usage = {} }: Completion): Usage | undefined {
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage;
  return promptTokens === undefined || completionTokens === undefined ? undefined : { promptTokens, completionTokens };
}

/** OpenAI's error shape, or whatever text there is. */
export function readError(body: Buffer): { readonly code: string; readonly message: string } {
  const { error } = (parse(body) ?? {}) as { error?: { code?: unknown; message?: unknown } };
  const text = typeof error?.message === "string" ? error.message : body.toString("utf8").slice(0, 500);
  return { code: typeof error?.code === "string" ? error.code : "", message: text };
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}

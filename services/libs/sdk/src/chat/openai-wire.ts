// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { ChatOptions, ModelAnswer, Usage } from "../rollout-client.ts";
import type { ChatMessage } from "../types.ts";

/** @param modelJson  the model's name as JSON text, encoded once per client. */
export function encodeRequest(modelJson: string, messages: readonly ChatMessage[], options: ChatOptions): string {
  const { temperature, topP, topK } = options.sampling;
  const plain = messages.every((message) => message.toolCalls === undefined && message.toolCallId === undefined);
  let text = `{"model":${modelJson},"messages":${JSON.stringify(plain ? messages : messages.map(toWire))}`;
  text += `,"max_tokens":${options.maxTokens},"seed":${options.seed}`;
  if (temperature !== undefined) text += `,"temperature":${temperature}`;
  if (topP !== undefined) text += `,"top_p":${topP}`;
  if (topK !== undefined && topK > 0) text += `,"top_k":${topK}`;
  return `${text}}`;
}

function toWire({ role, content, name, toolCalls, toolCallId }: ChatMessage): unknown {
  return {
    role,
    content,
    ...(name === undefined ? {} : { name }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
    ...(toolCalls === undefined
      ? {}
      : {
          tool_calls: toolCalls.map((call) => ({
            id: call.id,
            type: "function",
            function: { name: call.name, arguments: call.argumentsJson },
          })),
        }),
  };
}

interface Completion {
  readonly id?: string;
  /** The gateway's name of the call in its session; other servers have none. */
  readonly call_id?: string;
  readonly choices?: readonly Choice[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number };
}

interface Choice {
  readonly message?: { readonly content?: string | null };
  readonly finish_reason?: string;
}

/** @throws CONTRACT_VIOLATION when choices or usage are missing: budgets are counted from usage. */
export function readAnswer(body: Buffer): ModelAnswer {
  const completion = (parse(body) ?? {}) as Completion;
  const choice = completion.choices?.[0];
  const usage = usageOf(completion);
  if (choice === undefined || usage === undefined) {
    throw new WhetstoneError("CONTRACT_VIOLATION", "the model server's answer has no choices or no usage");
  }
  const { message, finish_reason: finishReason = "stop" } = choice;
  return { text: message?.content ?? "", finishReason, usage, callId: completion.call_id ?? completion.id ?? "" };
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

// SPDX-License-Identifier: Apache-2.0
import { type Answer, parsedArguments, type ToolCall } from "../../completion/answer.ts";
import type { Completion } from "../../completion/complete.ts";
import type { CompletionRequest } from "../../completion/request.ts";
import { MALFORMED } from "./messages.ts";

/** The body of an answer that is not streamed. Extension: `call_id` names the call in the session's tree. */
export function messageBody(request: CompletionRequest, [completion]: readonly Completion[]): string {
  if (completion === undefined) return "";
  const { requestId, answer, callId } = completion;
  const usage = { ...EMPTY_USAGE, ...usageOf(completion) };
  const message = { ...messageHead(request, requestId), content: contentOf(answer), ...stopOf(completion), usage };
  return JSON.stringify({ ...message, call_id: callId });
}

/** What a message begins with. */
export function messageHead({ model }: CompletionRequest, id: string): object {
  return { id, type: "message", role: "assistant", model, content: [], stop_reason: null, stop_sequence: null };
}

function contentOf({ reasoning, content, calls }: Answer): object[] {
  return [
    ...(reasoning === "" ? [] : [{ type: "thinking", thinking: reasoning, signature: "" }]),
    ...(content === "" && calls.length > 0 ? [] : [{ type: "text", text: content }]),
    ...calls.map((call) => ({ ...callBlock(call), input: inputOf(call) })),
  ];
}

export function callBlock({ id, name }: ToolCall): object {
  return { type: "tool_use", id, name };
}

/** Clients take objects only: of a malformed call one whose only field no tool knows. */
export function inputOf(call: ToolCall): object {
  return call.malformed ? { [MALFORMED]: call.arguments } : parsedArguments(call);
}

export function stopOf({ answer, generation, stopString }: Completion): {
  stop_reason: string;
  stop_sequence: string | null;
} {
  const sequence = stopString ?? null;
  if (generation.finishReason === "length") return { stop_reason: "max_tokens", stop_sequence: null };
  if (answer.calls.length > 0) return { stop_reason: "tool_use", stop_sequence: null };
  return { stop_reason: sequence === null ? "end_turn" : "stop_sequence", stop_sequence: sequence };
}

export const EMPTY_USAGE = {
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
};

/** Tokens that were read from the cache are not counted among the input's. */
export function usageOf({ promptIds, generation }: Completion): object {
  const cached = Math.min(generation.cachedTokens, promptIds.length);
  return {
    input_tokens: promptIds.length - cached,
    cache_read_input_tokens: cached,
    output_tokens: generation.ids.length,
  };
}

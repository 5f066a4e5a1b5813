// SPDX-License-Identifier: Apache-2.0
import type { Answer, ToolCall } from "../../completion/answer.ts";
import type { Completion } from "../../completion/complete.ts";
import { itemId } from "./items.ts";
import type { ResponsesRequest } from "./parse.ts";
import type { NamedFunction } from "./tools.ts";

/** The body of an answer that is not streamed. */
export function responseBody(request: ResponsesRequest, [completion]: readonly Completion[]): string {
  return JSON.stringify(completion && responseOf(request, completion));
}

/** A whole response. Extension: `call_id` names the call in the session's tree. */
export function responseOf(request: ResponsesRequest, completion: Completion): object {
  const { requestId, createdMs, answer, generation, callId } = completion;
  const isCut = generation.finishReason === "length";
  return {
    ...responseHead(request, requestId, createdMs),
    status: isCut ? "incomplete" : "completed",
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    output: outputOf(request, answer, requestId),
    usage: usageOf(completion),
    call_id: callId,
  };
}

/** A response that has just begun. */
export function responseHead(request: ResponsesRequest, id: string, createdMs: number): object {
  return {
    id,
    object: "response",
    created_at: Math.floor(createdMs / 1000),
    status: "in_progress",
    error: null,
    incomplete_details: null,
    model: request.model,
    output: [],
    usage: null,
    ...request.repeated,
  };
}

function outputOf(request: ResponsesRequest, { reasoning, content, calls }: Answer, id: string): object[] {
  return [
    ...(reasoning === "" ? [] : [thoughtsItem(id, reasoning)]),
    ...(content === "" && calls.length > 0 ? [] : [messageItem(id, content)]),
    ...calls.map((call, i) => callItem(id, namedByClient(request, call), i)),
  ];
}

export function thoughtsItem(response: string, text: string): object {
  const content = [{ type: "reasoning_text", text }];
  return { id: itemId("rs", response), type: "reasoning", summary: [], content, status: "completed" };
}

export function messageItem(response: string, text: string): object {
  return {
    id: itemId("msg", response),
    type: "message",
    status: "completed",
    role: "assistant",
    content: [textPart(text)],
  };
}

export function textPart(text: string): object {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

/** A call as the client knows its function. */
export type NamedCall = ToolCall & NamedFunction;

export function namedByClient({ namespaced }: ResponsesRequest, call: ToolCall): NamedCall {
  return { ...call, ...namespaced.get(call.name) };
}

export function callItem(response: string, call: NamedCall, number: number): object {
  const { id, name, namespace, arguments: args } = call;
  return {
    id: itemId("fc", response, number),
    type: "function_call",
    status: "completed",
    call_id: id,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    arguments: args,
  };
}

function usageOf({ promptIds, generation }: Completion): object {
  return {
    input_tokens: promptIds.length,
    input_tokens_details: { cached_tokens: generation.cachedTokens },
    output_tokens: generation.ids.length,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptIds.length + generation.ids.length,
  };
}

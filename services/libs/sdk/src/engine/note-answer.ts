// SPDX-License-Identifier: Apache-2.0
import type { ModelAnswer } from "../rollout-client.ts";
import type { ChatMessage, Step } from "../types.ts";

/** What the model said, as the message that the next prompt would repeat. */
export function messageOf({ text, reasoning, toolCalls }: ModelAnswer): ChatMessage {
  return {
    role: "assistant",
    content: text,
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(toolCalls === undefined ? {} : { toolCalls }),
  };
}

/** Completes a step by its model call; what the agent wrote itself stands. */
export function noteAnswer(step: Step, messages: readonly ChatMessage[], answer: ModelAnswer): void {
  const { callId, promptIds, completionIds, logprobs, reasoning } = answer;
  step.callId = callId;
  if (step.chatCompletions.length === 0) step.chatCompletions = [...messages, messageOf(answer)];
  if (step.thought === "" && reasoning !== undefined) step.thought = reasoning;
  if (promptIds !== undefined) Object.assign(step, { promptIds, completionIds, logprobs });
}

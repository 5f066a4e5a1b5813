// SPDX-License-Identifier: Apache-2.0
import type { ChatMessage } from "@whetstone/sdk";
import { z } from "zod";

const ownCall = z.strictObject({ id: z.string(), name: z.string(), argumentsJson: z.string() });
const openAiCall = z
  .strictObject({
    id: z.string(),
    type: z.literal("function").optional(),
    function: z.strictObject({ name: z.string(), arguments: z.union([z.string(), z.record(z.string(), z.unknown())]) }),
  })
  .transform(({ id, function: { name, arguments: given } }) => ({
    ...{ id, name },
    argumentsJson: typeof given === "string" ? given : JSON.stringify(given),
  }));
const common = {
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().nullish(),
  name: z.string().optional(),
};
const own = z.strictObject({
  ...common,
  toolCalls: z.array(ownCall).optional(),
  toolCallId: z.string().optional(),
  reasoning: z.string().optional(),
});
const openAi = z
  .strictObject({
    ...common,
    tool_calls: z.array(openAiCall).nullish(),
    tool_call_id: z.string().nullish(),
    reasoning_content: z.string().nullish(),
  })
  .transform(({ tool_calls: toolCalls, tool_call_id: toolCallId, reasoning_content: reasoning, ...message }) => ({
    ...message,
    ...(toolCalls && { toolCalls }),
    ...(toolCallId && { toolCallId }),
    ...(reasoning && { reasoning }),
  }));

/** A message as a task holds it, whether it is written so or as in the OpenAI chat API. */
export const message = z.record(z.string(), z.unknown()).transform((given, context): ChatMessage => {
  const isOpenAi = ["tool_calls", "tool_call_id", "reasoning_content"].some((name) => name in given);
  const parsed = (isOpenAi ? openAi : own).safeParse(given);
  if (parsed.success) return { ...parsed.data, content: parsed.data.content ?? "" } as ChatMessage;
  for (const { path, message: reason } of parsed.error.issues)
    context.addIssue({ code: "custom", path, message: reason });
  return z.NEVER;
});

// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "../completion/api-error.ts";
import { messageKey } from "../completion/message.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools } from "../completion/request.ts";
import type { Codec } from "../completion/complete.ts";
import { placePrompt, planPrompt, promptOf } from "./continuation.ts";
import type { Conversation, PromptPlan } from "./continuation.ts";
import { Session } from "./session.ts";
import type { CallRecord } from "./call-record.ts";

/**
 * A given conversation as the calls that would have sampled it, one per assistant message: what SFT trains on. The
 * completion is what a model would have to sample, the answer's text and the token that ends the turn.
 * @param yieldTurn  called between answers: each is rendered with all that stands before it.
 * @throws ApiError 400 when the template refuses the conversation.
 */
export async function renderDemonstration(
  { policy, messages, tools }: Conversation,
  codec: Codec,
  nowMs: number,
  yieldTurn: () => Promise<void>,
): Promise<CallRecord[]> {
  const session = new Session("demonstration", nowMs);
  for (const [at, message] of messages.entries()) {
    if (message.role !== "assistant") continue;
    const before = messages.slice(0, at);
    const place = await placePrompt(session, { policy, messages: before, tools }, codec);
    const plan = await planPrompt(place, codec);
    const printed = await printedAnswer(codec, plan.promptText, [...before, message], tools);
    if (plan.parent) plan.parent.children++;
    const call = await demonstrated(codec, plan, printed, { message, index: session.takeIndex(), policy, nowMs });
    session.add(call, before, messageKey(message));
    await yieldTurn();
  }
  return session.calls;
}

async function demonstrated(
  codec: Codec,
  plan: PromptPlan,
  printed: string,
  { message, index, policy, nowMs }: { message: TemplateMessage; index: number; policy: string; nowMs: number },
): Promise<CallRecord> {
  const completionIds = await throughEnd(codec, printed);
  const text = printed.endsWith(codec.endOfTurn) ? printed.slice(0, printed.length - codec.endOfTurn.length) : printed;
  // Nothing was sampled: there are no log-probabilities and no versions, and the mask says what is trained.
  const zeros = completionIds.map(() => 0);
  const answer = {
    logprobs: zeros,
    supports: [],
    spans: [],
    demonstrationMask: completionIds.map(() => 1),
    text,
  };
  const none = {
    finishReason: "stop",
    sampling: {},
    alteredBy: [],
    role: "agent",
    topic: undefined,
    children: 0,
    resubmissions: 0,
    cachedTokens: 0,
  };
  return {
    index,
    policy,
    message,
    ...promptOf(plan, completionIds),
    ...answer,
    ...none,
    startedAtMs: nowMs,
    durationMs: 0,
  };
}

/** What the template writes after the generation prompt for the last message. */
async function printedAnswer(
  codec: Codec,
  promptText: string,
  through: TemplateMessage[],
  tools: Tools,
): Promise<string> {
  const closed = await codec.renderClosed(through, tools);
  const { tool_calls: calls, ...answer } = through.at(-1) ?? { role: "assistant" };
  const isPrinted =
    calls === undefined || closed !== (await codec.renderClosed([...through.slice(0, -1), answer], tools));
  if (isPrinted && closed.startsWith(promptText)) return closed.slice(promptText.length);
  // A template whose generation prompt differs from how it prints an answer: take the plain text.
  if (calls === undefined) return (answer.content ?? "") + codec.endOfTurn;
  const param = `messages.${through.length - 1}.tool_calls`;
  const reason = "the model's chat template does not print them where they would be sampled; use one that knows tools";
  throw new ApiError("INVALID_ARGUMENT", "template_refused", `${param}: ${reason}`, { param });
}

/** The ids up to and including the last end token: a newline that the template writes after it is never sampled. */
async function throughEnd(codec: Codec, printed: string): Promise<readonly number[]> {
  const ids = await codec.encode(printed);
  const end = ids.findLastIndex((id) => codec.eosIds.has(id));
  return end < 0 ? ids : ids.slice(0, end + 1);
}

// SPDX-License-Identifier: Apache-2.0
import type { Completion } from "../completion/complete.ts";
import { answerMessage } from "../completion/message.ts";
import type { CompletionRequest } from "../completion/request.ts";
import { type Caller, callerOf } from "../fleet/fair-queue.ts";
import type { Access, HttpContext } from "./http-context.ts";
import type { Session } from "../sessions/session.ts";
import { chooseWeights, type KeyHolder, type ServedWeights } from "../served/served-names.ts";

/** Who answers a call, and whose turn it takes at the engines. Disposed when it has ended. */
export interface PlacedCall extends Disposable {
  readonly session: Session | undefined;
  readonly policy: string;
  readonly caller: Caller;
  /** Of a served name: which of its weights answer. */
  readonly weights?: ServedWeights;
  answered(completions: readonly Completion[]): void;
}

/** @throws ApiError 404, or 429 where a key's limits are reached */
export function placeCall(context: HttpContext, { session, holder }: Access, request: CompletionRequest): PlacedCall {
  if (holder !== undefined) return placeServed(context, holder, request);
  return {
    session,
    policy: request.model,
    caller: callerOf(session?.name),
    answered: () => undefined,
    [Symbol.dispose]: () => undefined,
  };
}

function placeServed(
  { chat, feedback, metrics }: HttpContext,
  holder: KeyHolder,
  request: CompletionRequest,
): PlacedCall {
  const { serving, limits } = holder;
  const weights = chooseWeights(serving, request, (policy) => chat.fleet.isServed(policy));
  const policy = weights === "canary" && serving.canary !== undefined ? serving.canary.policy : serving.policy;
  const end = limits.begin(chat.now());
  let outcome: "answered" | "failed" = "failed";
  return {
    session: undefined,
    policy,
    weights,
    caller: { job: serving.policy, session: `${serving.policy}/${holder.name}` },
    answered: (completions) => {
      outcome = "answered";
      const tokens = completions.reduce((sum, each) => sum + each.promptIds.length + each.generation.ids.length, 0);
      limits.useTokens(tokens);
      metrics.servedTokens({ serving: serving.name, weights }, tokens);
      if (request.prompt !== undefined) return; // Of a bare text nothing can be imitated as a conversation.
      const common = { serving: serving.name, key: holder.name, weights, tools: request.tools };
      for (const { requestId, answer, generation } of completions) {
        const label = `${policy}:${generation.spans.at(-1)?.policyVersion ?? ""}`;
        const conversation = [...request.messages, answerMessage(answer, answer.content)];
        feedback.keep(requestId, { ...common, label, conversation }, chat.now());
      }
    },
    [Symbol.dispose]: () => {
      end();
      metrics.servedCall({ serving: serving.name, weights, outcome });
    },
  };
}

// SPDX-License-Identifier: Apache-2.0
import { promptWithoutThinking } from "../chat/thinking.ts";
import { EpisodeError } from "../failure.ts";
import type { ChatOptions, ModelAnswer } from "../rollout-client.ts";
import type { ChatMessage } from "../types.ts";
import type { EngineSettings } from "./options.ts";

type CallSettings = Pick<
  EngineSettings,
  "accumulateThinking" | "disableThinking" | "returnTokenIds" | "phaseTimeoutsMs"
>;

const NO_THINKING = { enable_thinking: false };

/** What goes to the model of an agent's conversation. */
export function promptOf(
  messages: readonly ChatMessage[],
  { accumulateThinking }: CallSettings,
): readonly ChatMessage[] {
  return accumulateThinking ? messages : promptWithoutThinking(messages);
}

/** What the engine's settings ask of every call. */
export function askedOfCalls({ disableThinking, returnTokenIds }: CallSettings): Partial<ChatOptions> {
  return {
    ...(disableThinking ? { chatTemplateKwargs: NO_THINKING } : {}),
    ...(returnTokenIds ? { returnTokenIds } : {}),
  };
}

/** For the next hop: the episode's deadline, or the call's own bound if that is nearer. */
export function callRemainingMs(remainingMs: number, { phaseTimeoutsMs: { model } }: CallSettings): number {
  return model === undefined ? remainingMs : Math.min(remainingMs, model);
}

/** @throws EpisodeError TASK, UNSUPPORTED_SETTING when ids were asked for and the server gave none: no retry mends that. */
export function checkIds({ promptIds }: ModelAnswer, { returnTokenIds }: CallSettings): void {
  if (!returnTokenIds || promptIds !== undefined) return;
  const message =
    "the model server gave no token ids (prompt_token_ids, choices[].token_ids): token results need a server that knows " +
    "`return_token_ids`, as vLLM and Whetstone's gateway do; with others use the modes Text, Step or Conversation";
  throw new EpisodeError("TASK", message, { code: "UNSUPPORTED_SETTING" });
}

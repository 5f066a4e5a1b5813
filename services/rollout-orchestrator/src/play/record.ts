// SPDX-License-Identifier: Apache-2.0
import { type Episode, FailureClass, type ModelCall, TerminationReason } from "@whetstone/proto/types/v1/types";
import { EpisodeError, PromptTooLongError, type RecordedAnswer, RecordedClient, type Usage } from "@whetstone/sdk";

/** A sealed episode's model, played back. */
export function recordOf(episode: Episode): RecordedClient {
  return new RecordedClient(answersOf(episode), () => endOf(episode));
}

/** The gateway's calls, then the steps of roles that another model answered: of those only the text is kept. */
function answersOf({ calls, trajectories }: Episode): RecordedAnswer[] {
  const byId = new Map(calls.map((call) => [call.id, call]));
  const sampled = calls.map((call) => answerOf(call, byId));
  const elsewhere = trajectories.flatMap(({ role, steps }) =>
    steps
      .filter(({ callId }) => !byId.has(callId))
      .map(({ callId, modelResponse }) => ({ callId, role, text: modelResponse })),
  );
  return [...sampled, ...elsewhere];
}

function answerOf(call: ModelCall, byId: ReadonlyMap<string, ModelCall>): RecordedAnswer {
  const { id, role, text, finishReason, completionIds } = call;
  const usage: Usage = { promptTokens: promptTokens(call, byId), completionTokens: completionIds.length };
  return { callId: id, role, seed: call.seed === undefined ? undefined : Number(call.seed), text, finishReason, usage };
}

/** A call holds only what it adds to its parent's ids. */
function promptTokens(call: ModelCall, byId: ReadonlyMap<string, ModelCall>): number {
  let tokens = call.promptIds.length;
  for (let parent = byId.get(call.parentId); parent !== undefined; parent = byId.get(parent.parentId))
    tokens += parent.promptIds.length + parent.completionIds.length;
  return tokens;
}

/** What the call after the last recorded one came to: it is in the record only as the episode's end. */
function endOf({ terminationReason, failure }: Episode): Error {
  if (terminationReason === TerminationReason.MAX_PROMPT_LENGTH) return new PromptTooLongError("as recorded");
  const failed = failure !== undefined && failure.failureClass !== FailureClass.NONE;
  const message = failed ? `the record ends here: ${failure.message}` : "the record ends here: nothing more was asked";
  return new EpisodeError("INFRASTRUCTURE", message, { code: "DATA_LOSS" });
}

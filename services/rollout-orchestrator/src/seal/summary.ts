// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { versionOfEachToken } from "@whetstone/core";
import {
  type Episode,
  type EpisodeSummary,
  EpisodeSummarySchema,
  type ModelCall,
  Purpose,
} from "@whetstone/proto/types/v1/types";
import { whyNotTrainable } from "./trainable.ts";

const MAX_MESSAGE_CHARACTERS = 200;

/** The short form that travels in the message's header. @param digest  SHA-256 of the episode's bytes, lower-case hex. */
export function summarize(episode: Episode, digest: string): EpisodeSummary {
  const { min, max } = versionsOf(episode.calls);
  return create(EpisodeSummarySchema, {
    episodeId: episode.id,
    attempt: episode.attempt,
    purpose: episode.purpose,
    terminationReason: episode.terminationReason,
    failureClass: episode.failure?.failureClass as EpisodeSummary["failureClass"],
    reward: episode.reward,
    isCorrect: episode.isCorrect,
    ...(min === undefined ? {} : { minPolicyVersion: min }),
    ...(max === undefined ? {} : { maxPolicyVersion: max }),
    ...countTokens(episode),
    digest,
    steps: episode.trajectories.reduce((sum, { steps }) => sum + steps.length, 0),
    promptTokens: promptTokens(episode.calls),
    ...(episode.timing === undefined ? {} : { timing: episode.timing }),
    ...named(episode),
    notTrainable: whyNotTrainable(episode).slice(0, MAX_MESSAGE_CHARACTERS),
  });
}

type Names = Pick<EpisodeSummary, "failureMessage" | "failurePhase" | "taskId" | "taskSource">;

function named({ failure, task }: Episode): Names {
  const { message = "", phase: failurePhase = "" } = failure ?? {};
  const { id: taskId = "", source: taskSource = "" } = task ?? {};
  return { failureMessage: message.slice(0, MAX_MESSAGE_CHARACTERS), failurePhase, taskId, taskSource };
}

function versionsOf(calls: readonly ModelCall[]): { min?: bigint; max?: bigint } {
  const found: { min?: bigint; max?: bigint } = {};
  for (const { versionSpans } of calls) {
    for (const { start, end, policyVersion: version } of versionSpans) {
      if (end <= start) continue;
      if (found.min === undefined || version < found.min) found.min = version;
      if (found.max === undefined || version > found.max) found.max = version;
    }
  }
  return found;
}

type TokenCounts = Pick<EpisodeSummary, "sampledTokens" | "unlabelledTokens" | "demonstrationTokens">;

function countTokens({ purpose, calls }: Episode): TokenCounts {
  if (purpose === Purpose.DEMONSTRATION) {
    const demonstrationTokens = calls.reduce((sum, call) => sum + trainedTokens(call), 0);
    return { sampledTokens: 0, unlabelledTokens: 0, demonstrationTokens };
  }
  const sampledTokens = calls.reduce((sum, call) => sum + call.completionIds.length, 0);
  const unlabelledTokens = calls.reduce((sum, call) => sum + unlabelled(call), 0);
  return { sampledTokens, unlabelledTokens, demonstrationTokens: 0 };
}

function trainedTokens({ demonstrationMask, completionIds }: ModelCall): number {
  return demonstrationMask.length === 0
    ? completionIds.length
    : demonstrationMask.reduce((sum, trained) => sum + trained, 0);
}

function unlabelled({ versionSpans, completionIds }: ModelCall): number {
  return versionOfEachToken(completionIds.length, versionSpans).filter((version) => version === undefined).length;
}

/** A call with a parent holds only what its prompt adds to the parent's prompt and completion. */
function promptTokens(calls: readonly ModelCall[]): number {
  const totals = new Map<string, number>();
  let sum = 0;
  for (const { id, parentId, promptIds, completionIds } of calls) {
    const prompt = (totals.get(parentId) ?? 0) + promptIds.length;
    totals.set(id, prompt + completionIds.length);
    sum += prompt;
  }
  return sum;
}

// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { classify, type Failure, type Phase, type TerminationReason } from "../failure.ts";
import type { EngineSettings, EpisodeRun } from "./options.ts";

/** How a try ended. */
export interface Ending {
  readonly reason: TerminationReason;
  readonly failure: Failure;
}

const OVERLONG: ReadonlySet<TerminationReason> = new Set(["MAX_TURNS", "MAX_RESPONSE_LENGTH", "DEADLINE"]);

export function isMasked(
  reason: TerminationReason,
  { overlongFilter, deadlinePolicy }: Pick<EngineSettings, "overlongFilter" | "deadlinePolicy">,
): boolean {
  return (overlongFilter && OVERLONG.has(reason)) || (reason === "DEADLINE" && deadlinePolicy === "mask");
}

/** A hop that got the same deadline may notice it a moment before we do. */
const SAME_DEADLINE_MS = 100;

/** Whatever threw, the signal's word counts first: a call cut by the deadline is no failure of the environment. */
export function endingOf(thrown: unknown, phase: Phase, run: EpisodeRun): Ending {
  const failure = classify(thrown, phase);
  if (run.signal.aborted) return interrupted(run.signal, failure);
  const byDeadline = failure.code === "DEADLINE_EXCEEDED" && run.remainingMs() < SAME_DEADLINE_MS;
  return byDeadline ? { reason: "DEADLINE", failure: { ...failure, class: "DEADLINE" } } : { reason: "ERROR", failure };
}

function interrupted(signal: AbortSignal, failure: Failure): Ending {
  const { code, message } = WhetstoneError.from(signal.reason);
  if (code !== "DEADLINE_EXCEEDED")
    return { reason: "CANCELLED", failure: { ...failure, class: "NONE", code, message } };
  return { reason: "DEADLINE", failure: { ...failure, class: "DEADLINE", code, message } };
}

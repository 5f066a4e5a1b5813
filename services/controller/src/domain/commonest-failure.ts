// SPDX-License-Identifier: Apache-2.0
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { FailureClass } from "@whetstone/proto/types/v1/types";

/** One voided episode: what its summary says, and why the books left it out. */
export interface Voided {
  readonly summary: EpisodeSummary | undefined;
  /** One word, as in a manifest. */
  readonly reason: string;
}

/** "ENVIRONMENT step: the environment's step() returned … (64 times)". Empty: nothing was voided. */
export function commonestFailure(voided: readonly Voided[]): string {
  const times = new Map<string, number>();
  for (const one of voided) times.set(wordsOf(one), (times.get(wordsOf(one)) ?? 0) + 1);
  const [first] = [...times].sort(([, a], [, b]) => b - a);
  if (first === undefined) return "";
  const [words, count] = first;
  return `${words} (${count === 1 ? "once" : `${count} times`})`;
}

function wordsOf({ summary, reason }: Voided): string {
  if (summary === undefined || FAILED_BY_ITSELF.has(summary.failureClass)) return reason;
  const { failureClass, failurePhase, failureMessage } = summary;
  return `${[FailureClass[failureClass], failurePhase].filter(Boolean).join(" ")}: ${failureMessage}`;
}

/** Of these the books' reason says more: "NoTokens", "GroupIncomplete". */
const FAILED_BY_ITSELF: ReadonlySet<FailureClass> = new Set([
  FailureClass.UNSPECIFIED,
  FailureClass.NONE,
  FailureClass.POLICY,
]);

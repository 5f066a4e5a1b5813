// SPDX-License-Identifier: Apache-2.0
import { FailureClass } from "@whetstone/proto/types/v1/types";
import type { KeptSummary } from "./sealed-episode.ts";

/** One voided episode: what its summary says, and why the books left it out. */
export interface Voided {
  readonly summary: Pick<KeptSummary, "failureClass" | "failurePhase" | "failureMessage"> | undefined;
  /** One word, as in a manifest. */
  readonly reason: string;
}

/** Counts failures by what they say; there may be millions of them, but few kinds. */
export class FailureTally {
  readonly #times = new Map<string, number>();

  add(voided: Voided): void {
    const words = wordsOf(voided);
    this.#times.set(words, (this.#times.get(words) ?? 0) + 1);
  }

  /** "ENVIRONMENT step: the environment's step() returned … (64 times)". Empty: nothing was voided. */
  commonest(): string {
    const [first] = [...this.#times].sort(([, a], [, b]) => b - a);
    if (first === undefined) return "";
    const [words, count] = first;
    return `${words} (${count === 1 ? "once" : `${count} times`})`;
  }
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

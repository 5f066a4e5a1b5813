// SPDX-License-Identifier: Apache-2.0
import type { KeptSummary } from "./sealed-episode.ts";

/** What an episode's summary says in words. */
type Words = Pick<KeptSummary, "failurePhase" | "failureMessage" | "notTrainable">;

/** Different ones that are kept. Millions of failures are of few kinds, unless each message has a name of its own in it. */
const KINDS = 10_000;
const OTHER = "another message: the job has too many different ones";

/** Keeps each text once. */
export class WordTable {
  readonly #rows = new Map<string, number>();
  readonly #words: Words[] = [];

  add({ failurePhase, failureMessage, notTrainable }: Words): number {
    const words = { failurePhase, failureMessage, notTrainable };
    return this.#find(words) ?? (this.#words.length < KINDS ? this.#push(words) : this.#other(words));
  }

  get(row: number): Words {
    return this.#words[row] as Words;
  }

  /** What cannot be trained stays so. */
  #other({ failureMessage, notTrainable }: Words): number {
    const instead = (text: string): string => (text === "" ? "" : OTHER);
    const other = { failurePhase: "", failureMessage: instead(failureMessage), notTrainable: instead(notTrainable) };
    return this.#find(other) ?? this.#push(other);
  }

  #find(words: Words): number | undefined {
    return this.#rows.get(keyOf(words));
  }

  #push(words: Words): number {
    this.#rows.set(keyOf(words), this.#words.length);
    return this.#words.push(words) - 1;
  }
}

function keyOf({ failurePhase, failureMessage, notTrainable }: Words): string {
  return JSON.stringify([failurePhase, failureMessage, notTrainable]);
}

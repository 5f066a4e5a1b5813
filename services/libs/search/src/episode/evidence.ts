// SPDX-License-Identifier: Apache-2.0
import { Deadline, raceSignal, WhetstoneError } from "@whetstone/core";
import { normalizeAnswer } from "@whetstone/graders";
import { EpisodeError, type StepOptions } from "@whetstone/sdk";
import type { Found, Searcher } from "@whetstone/tools";

/** An episode's searches: each has a deadline, and what they found is known to those who judge the episode. */
export class Evidence implements Searcher {
  readonly #searcher: Searcher;
  readonly #timeoutMs: number;
  #texts = "";
  searches = 0;

  constructor(searcher: Searcher, timeoutMs: number) {
    this.#searcher = searcher;
    this.#timeoutMs = timeoutMs;
  }

  /** @throws EpisodeError ENVIRONMENT for a search that fails or takes too long: never the model's fault (I6). */
  async search(query: string, limit: number, { signal }: StepOptions = {}): Promise<readonly Found[]> {
    const found = await this.#within(query, limit, signal);
    this.searches += 1;
    for (const { document } of found) this.#texts += ` ${normalizeAnswer(`${document.title ?? ""} ${document.text}`)} `;
    return found;
  }

  async #within(query: string, limit: number, signal: AbortSignal | undefined): Promise<readonly Found[]> {
    using deadline = Deadline.after(this.#timeoutMs, signal);
    try {
      return await raceSignal(
        Promise.resolve(this.#searcher.search(query, limit, { signal: deadline.signal })),
        deadline.signal,
      );
    } catch (error) {
      if (signal?.aborted || error instanceof EpisodeError) throw error;
      const reason = deadline.signal.aborted
        ? `no answer within ${this.#timeoutMs} ms`
        : WhetstoneError.from(error).message;
      throw new EpisodeError("ENVIRONMENT", `search: ${reason}`, { cause: error });
    }
  }

  /** One of the truths stands in what was found, in SQuAD's normal form. */
  has(truths: readonly string[]): boolean {
    return truths.some((truth) => this.#texts.includes(normalizeAnswer(truth)));
  }
}

// SPDX-License-Identifier: Apache-2.0
// What clients refer to by name instead of sending it again.
import type { Answer } from "./answer.ts";
import { answerMessage } from "./message.ts";
import type { TemplateMessage } from "./message.ts";

export interface EarlierAnswers {
  /** The messages of an answered request, those that it referred to included, and its answer. */
  conversation(id: string): TemplateMessage[] | undefined;
  answer(id: string): Answer | undefined;
}

export interface Remembered {
  /** The answer that it went on from. */
  readonly previous: string | undefined;
  readonly messages: readonly TemplateMessage[];
  readonly answer: Answer;
}

/** The answers of one session that may be referred to. They go with it. */
export class RememberedAnswers implements EarlierAnswers {
  readonly #byId = new Map<string, Remembered>();

  remember(id: string, remembered: Remembered): void {
    this.#byId.set(id, remembered);
  }

  all(): Iterable<[string, Remembered]> {
    return this.#byId.entries();
  }

  conversation(id: string): TemplateMessage[] | undefined {
    const chain: Remembered[] = [];
    for (let at: string | undefined = id; at !== undefined;) {
      const link: Remembered | undefined = this.#byId.get(at);
      if (link === undefined) return undefined;
      chain.push(link);
      at = link.previous;
    }
    return chain.toReversed().flatMap(({ messages, answer }) => [...messages, answerMessage(answer, answer.content)]);
  }

  answer(id: string): Answer | undefined {
    return this.#byId.get(id)?.answer;
  }
}

/** Of a request without a session: nothing is kept of it. */
export const NOTHING_EARLIER: EarlierAnswers = { conversation: () => undefined, answer: () => undefined };

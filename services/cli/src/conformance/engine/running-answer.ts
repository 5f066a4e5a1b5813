// SPDX-License-Identifier: Apache-2.0
import { withTimeout } from "@whetstone/core";

import { type Answer, joinAnswers } from "./answer.ts";
import { type EngineApi, shown } from "./engine-api.ts";

/** A streamed answer that is read as it comes. */
export class RunningAnswer {
  readonly chunks: unknown[] = [];
  /** Resolves with its first token. */
  readonly begun: Promise<void>;
  readonly #left = new AbortController();
  readonly #end: Promise<Answer>;
  #isOver = false;
  #tokens = 0;

  constructor(api: EngineApi, body: object) {
    const first = Promise.withResolvers<void>();
    this.begun = first.promise;
    this.#end = this.#read(api.within(this.#left.signal), body, first.resolve).finally(() => (this.#isOver = true));
    this.#end.then(
      () => first.reject(new Error("a stream ended without a token")),
      (error: unknown) => first.reject(error),
    );
    this.begun.catch(() => undefined); // Whoever waits for the end hears of it there.
  }

  /** It has ended, or failed. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** By which it can be aborted; empty before it has begun. */
  get requestId(): string {
    return joinAnswers(this.chunks).requestId;
  }

  /** Tokens that have come so far. */
  get tokens(): number {
    return this.#tokens;
  }

  /** The whole answer. @param withinMs  default: as long as the engine goes on sending */
  async end(withinMs?: number): Promise<Answer> {
    if (withinMs === undefined) return await this.#end;
    return await withTimeout(() => this.#end, { timeoutMs: withinMs }).catch((error: unknown) => {
      if (this.#isOver) throw error;
      throw new Error(`a stream goes on ${withinMs / 1000} s later, with ${this.tokens} tokens`, { cause: error });
    });
  }

  /** As a client that goes away. */
  leave(): void {
    this.#left.abort();
  }

  async #read(api: EngineApi, body: object, onFirst: () => void): Promise<Answer> {
    for await (const event of api.events("/inference/v1/generate", body)) {
      if (typeof event !== "object") throw new Error(`an event of a stream is not JSON: ${shown(event)}`);
      this.chunks.push(event);
      this.#tokens += joinAnswers([event]).ids.length;
      if (this.#tokens > 0) onFirst();
    }
    return joinAnswers(this.chunks);
  }
}

// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import { WhetstoneError } from "@whetstone/core";
import { broken } from "./manifest.ts";
import type { Origin } from "./origin.ts";

/** In a row, without a byte in between. */
const MOST_FAILURES = 6;
const [FIRST_WAIT_MS, LONGEST_WAIT_MS] = [100, 3_000];

/** Ranges of files. A transfer that breaks goes on at its last byte; the reader's pace is the sender's. */
export class Transfer {
  /** Bytes so far. */
  received = 0;
  /** Times that it had to begin anew. */
  resumed = 0;
  readonly #origin: Origin;
  readonly #signal: AbortSignal;

  /** @param signal  ends it, with its reason: whoever waits has left, or it took too long */
  constructor(origin: Origin, signal: AbortSignal) {
    this.#origin = origin;
    this.#signal = signal;
  }

  get url(): string {
    return this.#origin.url;
  }

  /** A whole file. @param most  bytes: it is held in memory */
  async small(file: string, most: number): Promise<Buffer> {
    const { total } = await this.#trying(file, 0, async () => {
      const answer = await this.#origin.open(file, 0, 1, this.#signal);
      for await (const _byte of answer.body);
      return answer;
    });
    if (!(total > 0 && total <= most)) throw broken(`${file}: ${this.url} has ${total} bytes of it, which cannot be`);
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.read(file, 0, total)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  /** The bytes from `begin` up to `end`. @throws WhetstoneError when it is over, with what was last said */
  async *read(file: string, begin: number, end: number): AsyncGenerator<Uint8Array, void, undefined> {
    let [at, failures] = [begin, 0];
    while (at < end) {
      try {
        const { body } = await this.#origin.open(file, at, end, this.#signal);
        for await (const chunk of body) {
          this.#signal.throwIfAborted();
          const wanted = chunk.subarray(0, end - at);
          [at, failures] = [at + wanted.length, 0];
          this.received += wanted.length;
          yield wanted;
        }
        if (at < end) throw new Error("it ended early");
      } catch (error) {
        await this.#failed(`${file} at byte ${at}`, (failures += 1), error);
      }
    }
  }

  async #trying<T>(file: string, failures: number, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      await this.#failed(file, failures + 1, error);
      return this.#trying(file, failures + 1, work);
    }
  }

  /** Waits where it may be over soon. */
  async #failed(what: string, failures: number, error: unknown): Promise<void> {
    this.#signal.throwIfAborted();
    if (error instanceof WhetstoneError) throw error;
    if (failures >= MOST_FAILURES) {
      const reason = (error as Error).message;
      throw broken(`${what}: ${this.url} broke off ${failures} times: ${reason}; is it there?`, error);
    }
    this.resumed += 1;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
    await delay(wait, undefined, { signal: this.#signal });
  }
}

// SPDX-License-Identifier: Apache-2.0

/**
 * The writing half of a stream whose caller waits for each answer: at most one request is queued. An AsyncIterable by hand,
 * because a generator would cost two more promises a turn.
 */
export class RequestChannel<T> implements AsyncIterable<T>, AsyncIterator<T, undefined> {
  #queued: T[] = [];
  #waiting: ((result: IteratorResult<T, undefined>) => void) | undefined;
  #ended = false;

  push(request: T): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) waiting({ done: false, value: request });
    else this.#queued.push(request);
  }

  /** No more requests; what is queued still goes out. */
  end(): void {
    this.#ended = true;
    this.#waiting?.({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const value = this.#queued.shift();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => (this.#waiting = resolve));
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#queued = [];
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

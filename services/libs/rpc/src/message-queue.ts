// SPDX-License-Identifier: Apache-2.0
import type { Readable, Writable } from "node:stream";

// Reads a gRPC call message by message, with back pressure: past HIGH queued messages the call is paused, and HTTP/2 flow
// control stops the sender. Faster than Readable's own iterator, and leaving the loop early does not destroy the call's
// writing half.

const HIGH = 64;
const LOW = 16;

export interface QueueEnd {
  readonly error?: Error;
  readonly drop?: boolean;
}

export class MessageQueue<T> implements AsyncIterable<T>, AsyncIterator<T, undefined> {
  readonly #source: Readable;
  readonly #onReturn: () => void;
  #messages: T[] = [];
  #head = 0;
  #waiting: PromiseWithResolvers<IteratorResult<T, undefined>> | undefined;
  #end: QueueEnd | undefined;
  #failure: QueueEnd = {};

  /** @param onReturn  called when the reader leaves before the end. */
  constructor(source: Readable, onReturn: () => void = () => undefined) {
    this.#source = source;
    this.#onReturn = onReturn;
    source.on("data", (message: T) => {
      this.#push(message);
    });
    source.on("end", () => {
      // A reset stream says "end" just before it says "cancelled", and a handler must not take a vanished peer for one
      // that has said all it wanted. One turn of the event loop later the difference is known.
      setImmediate(() => {
        this.finish(this.#failure);
      });
    });
  }

  /** Ends the queue after what is queued; with `drop`, at once. The first call wins. */
  finish(end: QueueEnd): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    if (end.drop === true) this.#drop();
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting !== undefined) this.#atEnd(end).then(waiting.resolve, waiting.reject);
  }

  /** The call failed: what the stream still holds is handed over first, then the error. */
  fail(error: Error): void {
    if (this.#source.readableLength === 0) {
      this.finish({ error });
      return;
    }
    this.#failure = { error };
    this.#source.resume(); // At most its own buffer, a few messages.
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#head < this.#messages.length) return Promise.resolve({ done: false, value: this.#shift() });
    if (this.#end !== undefined) return this.#atEnd(this.#end);
    this.#waiting = Promise.withResolvers<IteratorResult<T, undefined>>();
    return this.#waiting.promise;
  }

  return(): Promise<IteratorResult<T, undefined>> {
    const early = this.#end === undefined;
    this.finish({ drop: true });
    this.#drop();
    if (early) this.#onReturn();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #atEnd(end: QueueEnd): Promise<IteratorResult<T, undefined>> {
    if (end.error === undefined) return Promise.resolve({ done: true, value: undefined });
    this.#end = {}; // An iterator throws once, then it is done.
    return Promise.reject(end.error);
  }

  #push(message: T): void {
    if (this.#end !== undefined) return;
    if (this.#waiting !== undefined) {
      const waiting = this.#waiting;
      this.#waiting = undefined;
      waiting.resolve({ done: false, value: message });
      return;
    }
    this.#messages.push(message);
    if (this.#messages.length - this.#head >= HIGH && this.#failure.error === undefined) this.#source.pause();
  }

  #shift(): T {
    const message = this.#messages[this.#head] as T;
    this.#head += 1;
    if (this.#head === this.#messages.length) this.#drop();
    if (this.#messages.length - this.#head <= LOW && this.#source.isPaused()) this.#source.resume();
    return message;
  }

  #drop(): void {
    this.#messages = [];
    this.#head = 0;
  }
}

/** Resolves when the stream takes more, closes, or the signal aborts; the caller then looks which. */
export function drained(stream: Writable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off("drain", done);
      stream.off("close", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    if (signal.aborted || stream.destroyed) {
      resolve();
      return;
    }
    stream.on("drain", done);
    stream.on("close", done);
    signal.addEventListener("abort", done);
  });
}

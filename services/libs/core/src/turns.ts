// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";

// For loops over up to millions of things: whoever runs them must not keep timers and requests waiting.

/** So many steps of about a microsecond each run before others have their turn. */
const STEPS = 1_000;

/**
 * The items one by one; after each thousand of them timers and requests have their turn.
 * @param every  items between two turns, where each is more work than a microsecond. Work that waits for other processes needs it
 * too: while their answers come fast enough, Node reads on and lets nobody else in.
 */
export async function* inTurns<T>(
  items: Iterable<T> | AsyncIterable<T>,
  every = STEPS,
): AsyncGenerator<T, void, undefined> {
  let steps = 0;
  for await (const item of items) {
    yield item;
    if (++steps % every === 0) await turn();
  }
}

/** Runs work that yields after each of its steps; after each thousand of them timers and requests have their turn. */
export async function runInTurns<T>(work: Generator<void, T>): Promise<T> {
  for (let steps = 1; ; steps++) {
    const { done, value } = work.next();
    if (done === true) return value;
    if (steps % STEPS === 0) await turn();
  }
}

/** Runs the same work without a pause. */
export function runAtOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

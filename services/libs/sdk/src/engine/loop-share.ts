// SPDX-License-Identifier: Apache-2.0

// T1: what goes on after an answer is done in slices of about SLICE_MS: between two of them timers, sockets and other work of
// this process get their turn, however many answers are there at once. T2: episodes that play go before episodes that
// begin; so no more are in flight than this process can serve, and the clocks of the others have not started.
// T3: nothing waits while there is time: the fast way costs a comparison.

/** Work done before the event loop goes round, milliseconds. */
const SLICE_MS = 8;
const FIRST_BATCH = 64;
const LARGEST_BATCH = 1024;

type Resume = () => void;

/** First in, first out, without moving what is left. */
class Line {
  #items: Resume[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: Resume): void {
    this.#items.push(item);
  }

  shift(): Resume | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#head += 1;
    if (this.#head === this.#items.length || this.#head >= 1024) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

/** Shares the event loop of this thread among its episodes. */
export class LoopShare {
  readonly #going = new Line();
  readonly #starting = new Line();
  /** Turns in one round of the loop: as many as lately fitted into a slice. */
  #batch = FIRST_BATCH;
  #used = 0;
  #roundStartedAt = 0;
  #armed = false;

  /** Before an episode's first work. @returns undefined: go on at once. */
  start(): Promise<void> | undefined {
    return this.#take(this.#starting, this.#going.length + this.#starting.length);
  }

  /** Before the work that an answer makes. @returns undefined: go on at once. */
  next(): Promise<void> | undefined {
    return this.#take(this.#going, this.#going.length);
  }

  #take(line: Line, before: number): Promise<void> | undefined {
    this.#arm();
    if (before === 0 && this.#used < this.#batch) {
      this.#used += 1;
      return undefined;
    }
    return new Promise((resolve) => {
      line.push(resolve);
    });
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.#roundStartedAt = performance.now();
    setImmediate(this.#onRoundEnd);
  }

  readonly #onRoundEnd = (): void => {
    this.#learn(performance.now() - this.#roundStartedAt);
    this.#armed = false;
    this.#used = 0;
    if (this.#going.length + this.#starting.length === 0) return;
    this.#arm();
    while (this.#used < this.#batch) {
      const resume = this.#going.shift() ?? this.#starting.shift();
      if (resume === undefined) return;
      this.#used += 1;
      resume();
    }
  };

  /** Halves when a round took too long, grows slowly while whole batches fit. */
  #learn(roundMs: number): void {
    if (roundMs > SLICE_MS) this.#batch = Math.max(1, Math.floor(this.#batch / 2));
    else if (this.#used >= this.#batch) this.#batch = Math.min(LARGEST_BATCH, this.#batch + 4);
  }
}

/** One event loop, one of these: engines in one thread share it. */
export const loopShare = new LoopShare();

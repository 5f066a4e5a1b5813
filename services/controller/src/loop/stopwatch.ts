// SPDX-License-Identifier: Apache-2.0
/** The disjoint parts of a step's wall time; see StepTiming in jobs.proto. */
export type Part = "sampling" | "training" | "syncing" | "waiting" | "validating";

/** Adds up where the loop's time goes. Parts never overlap because the loop does one thing at a time. */
export class Stopwatch {
  readonly #now: () => number;
  #parts = new Map<Part, number>();
  #startedAt: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#startedAt = now();
  }

  async measure<T>(part: Part, work: () => Promise<T>): Promise<T> {
    const from = this.#now();
    try {
      return await work();
    } finally {
      this.#add(part, this.#now() - from);
    }
  }

  /** Books milliseconds that were measured as one part under another. */
  move(from: Part, to: Part, ms: number): void {
    const moved = Math.min(ms, this.#parts.get(from) ?? 0);
    this.#add(from, -moved);
    this.#add(to, moved);
  }

  /** The parts in milliseconds since the last lap, and starts the next. */
  lap(): Record<Part, number> & { total: number } {
    const now = this.#now();
    const of = (part: Part): number => this.#parts.get(part) ?? 0;
    const lap = {
      sampling: of("sampling"),
      training: of("training"),
      syncing: of("syncing"),
      waiting: of("waiting"),
      validating: of("validating"),
      total: now - this.#startedAt,
    };
    this.#parts = new Map();
    this.#startedAt = now;
    return lap;
  }

  #add(part: Part, ms: number): void {
    this.#parts.set(part, (this.#parts.get(part) ?? 0) + ms);
  }
}

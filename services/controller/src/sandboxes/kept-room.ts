// SPDX-License-Identifier: Apache-2.0

/** For a first pod that has to be made, on a node that has to pull its image, and the second claim after it. */
const KEEP_MS = 150_000;

interface Kept {
  readonly pool: string;
  readonly until: number;
}

/**
 * Room in pools for the second of two pods that are wanted at once: else, in a full pool, callers that hold one each would wait for each
 * other. Only this replica knows of it.
 */
export class KeptRoom {
  /** By the claim of the first. */
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Keeps room for one pod beside that of the claim, until it is given up or two and a half minutes are over. */
  keep(claim: string, pool: string): void {
    this.#kept.set(claim, { pool, until: this.#now() + KEEP_MS });
  }

  giveUp(claim: string): void {
    this.#kept.delete(claim);
  }

  /** How many pods room is kept for that neither of these claims may have. */
  forOthers(pool: string, claims: readonly string[]): number {
    for (const [claim, { until }] of this.#kept) if (until <= this.#now()) this.#kept.delete(claim);
    return [...this.#kept].filter(([claim, kept]) => kept.pool === pool && !claims.includes(claim)).length;
  }
}

// SPDX-License-Identifier: Apache-2.0
/** Violations of the books: counted all, kept the first few. */

export type ViolationKind = "lost" | "duplicated" | "stale" | "unlabelled";

export interface Violation {
  readonly kind: ViolationKind;
  /** An episode's id, or "<job> step <n>" for a whole batch. */
  readonly subject: string;
  readonly reason: string;
}

const KEPT = 20;

export class AuditReport {
  readonly first: Violation[] = [];
  /** Episodes affected, by kind. Tokens are counted by whoever reads them. */
  readonly counts: Record<ViolationKind, number> = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0 };
  readonly #lost = new Set<string>();

  /** `episodes`: how many it concerns, 1 unless it is a batch. An id is counted as lost once, whatever shows it. */
  add(kind: ViolationKind, subject: string, reason: string, episodes = 1): void {
    if (kind === "lost") {
      if (this.#lost.has(subject)) return;
      this.#lost.add(subject);
    }
    this.counts[kind] += episodes;
    if (this.first.length < KEPT) this.first.push({ kind, subject, reason });
  }

  lostIds(counts: (id: string) => boolean): number {
    return [...this.#lost].filter(counts).length;
  }
}

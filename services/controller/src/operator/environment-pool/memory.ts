// SPDX-License-Identifier: Apache-2.0

/** What is kept of a pool between two looks. All of it can be lost. */
export class PoolMemory {
  /** Draining pods that said that nothing is open there, by uid. */
  readonly empty = new Set<string>();
  /** Ordinals of pods that are somebody else's. */
  readonly taken = new Set<number>();
  /** Since when nothing is open at a pod, by uid, milliseconds. */
  readonly idleSince = new Map<string, number>();
  /** Why the API server did not take a pod. Empty: it did. */
  refused = "";
  /** Uid of the pool whose budget was written. */
  budgetOf = "";
}

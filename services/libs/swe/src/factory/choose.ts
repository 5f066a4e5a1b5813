// SPDX-License-Identifier: Apache-2.0
import { createRng } from "@whetstone/core";
import type { PossibleBug } from "./planter.ts";

/**
 * The order in which places are tried: by chance, but kind after kind, so that the many small changes do not crowd out the rest.
 * @returns places in `bugs`
 */
export function orderOfTries(bugs: readonly PossibleBug[], seed: number): number[] {
  const shuffled = createRng(seed).shuffle(bugs.map((_, number) => number));
  const byKind = Map.groupBy(shuffled, (number) => bugs[number]?.kind);
  const queues = [...byKind.values()].toSorted((a, b) => a.length - b.length);
  const order: number[] = [];
  for (let round = 0; order.length < shuffled.length; round += 1)
    for (const queue of queues) if (round < queue.length) order.push(queue[round] as number);
  return order;
}

/** Pairs of places in different functions, each place once. */
export function pairsOf(kept: readonly number[], bugs: readonly PossibleBug[], seed: number): [number, number][] {
  const rest = createRng(seed).shuffle(kept);
  const pairs: [number, number][] = [];
  while (rest.length > 1) {
    const first = rest.pop() as number;
    const at = rest.findIndex((number) => placeOf(bugs[number]) !== placeOf(bugs[first]));
    if (at === -1) break;
    pairs.push([first, ...(rest.splice(at, 1) as [number])]);
  }
  return pairs;
}

export function placeOf(bug: PossibleBug | undefined): string {
  return `${bug?.path}:${bug?.function}`;
}

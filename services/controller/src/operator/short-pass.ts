// SPDX-License-Identifier: Apache-2.0

export interface PassLimits {
  readonly atOnce: number;
  /** Nothing new is begun after that; a first lot always is, so that every pass gets somewhere. */
  readonly ms: number;
}

/** Works on the items in their order, some at once, until all are done or the time is over. @returns how many are left */
export async function shortPass<T>(
  items: readonly T[],
  { atOnce, ms }: PassLimits,
  work: (item: T) => Promise<void>,
): Promise<number> {
  const until = performance.now() + ms;
  let next = 0;
  const some = async (): Promise<void> => {
    do {
      const item = items[next++];
      if (item === undefined) return;
      await work(item);
    } while (performance.now() < until);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, some));
  return Math.max(0, items.length - next);
}

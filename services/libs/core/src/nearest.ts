// SPDX-License-Identifier: Apache-2.0
/** "Did you mean …?" */

/** Edits (insert, delete, replace, swap of neighbours) from one text to another. Optimal string alignment. */
export function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replace = (last[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let best = Math.min(replace, (last[j] as number) + 1, (row[j - 1] as number) + 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) best = Math.min(best, (before[j - 2] as number) + 1);
      row.push(best);
    }
    [before, last] = [last, row];
  }
  return last[b.length] as number;
}

/** The known name nearest to a mistyped one, if it is near enough to be meant. Case and underscores do not count. */
export function nearest(text: string, known: readonly string[]): string | undefined {
  const fold = (name: string): string => name.replaceAll(/[_-]/g, "").toLowerCase();
  const scored = known.map((name) => ({ name, distance: editDistance(fold(text), fold(name)) }));
  const best = scored.sort((a, b) => a.distance - b.distance)[0];
  return best && best.distance <= Math.max(1, Math.floor(text.length / 3)) ? best.name : undefined;
}

// SPDX-License-Identifier: Apache-2.0

/** Longer words are cut, so that a line of noise cannot fill the dictionary with itself. */
const MAX_WORD = 64;

/** Words of a text in lower case: runs of letters, marks and digits of any script. No stemming, no stop words. */
export function wordsOf(text: string): string[] {
  const words =
    text
      .normalize("NFKC")
      .toLowerCase()
      .match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return words.map((word) => word.slice(0, MAX_WORD));
}

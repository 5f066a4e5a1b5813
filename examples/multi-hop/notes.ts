// SPDX-License-Identifier: Apache-2.0
// A question and the passages found, as a small model reads them: names are letters. See README.md.

/** How names are called, the first that was read first; of more than these nobody is told. */
export const LETTERS = "abcdefghijklmnop";

const PASSAGE = /^Doc \d+\(Title: [^)]*\) /u;
/** "What" begins a question; invented names are longer than it. */
const NAME = /\b[A-Z][a-z]{4,}\b/gu;

/** @param read  the question, then the blocks of passages, as the environment `search` gives them */
export function notesOf(read: readonly string[]): { text: string; names: readonly string[] } {
  const names: string[] = [];
  const letterOf = (name: string): string => {
    if (!names.includes(name) && names.length < LETTERS.length) names.push(name);
    return LETTERS[names.indexOf(name)] ?? "?";
  };
  const passages = read.map((block) => block.replaceAll(/<\/?information>/gu, "").replace(PASSAGE, ""));
  const lines = [...new Set(passages)].map((line) => line.replaceAll(NAME, letterOf));
  return { text: lines.join("\n"), names };
}

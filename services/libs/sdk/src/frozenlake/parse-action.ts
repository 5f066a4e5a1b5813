// SPDX-License-Identifier: Apache-2.0

/** What the environment takes; "" stands for an answer without an action. */
export type LakeAction = "Left" | "Down" | "Right" | "Up" | "";

const BY_WORD: ReadonlyMap<string, LakeAction> = new Map<string, LakeAction>([
  ["left", "Left"],
  ["down", "Down"],
  ["right", "Right"],
  ["up", "Up"],
  ["1", "Left"],
  ["2", "Down"],
  ["3", "Right"],
  ["4", "Up"],
]);

const BLOCK = /```(.*?)```/gs;

/** rLLM's rule: the last ``` block, a word or a digit from 1 to 4, in any case. */
export function parseFenced(answer: string): LakeAction {
  const last = [...answer.matchAll(BLOCK)].at(-1)?.[1] ?? "";
  return BY_WORD.get(last.trim().toLowerCase()) ?? "";
}

const BY_LETTER: ReadonlyMap<string, LakeAction> = new Map<string, LakeAction>([
  ["U", "Up"],
  ["D", "Down"],
  ["L", "Left"],
  ["R", "Right"],
]);

/** Exactly one letter, U, D, L or R; white space around it does not count. */
export function parseLetter(answer: string): LakeAction {
  return BY_LETTER.get(answer.trim()) ?? "";
}

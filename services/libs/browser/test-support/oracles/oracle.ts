// SPDX-License-Identifier: Apache-2.0
import { bidOf, type PageTree, type TreeNode } from "./page-tree.ts";

/** Knows one kind of task: gives actions, is given the page after each, until it has done what was asked. */
export type Oracle = (page: PageTree) => Generator<string, void, PageTree>;

const quote = (text: string): string => JSON.stringify(text);

export const click = (node: TreeNode): string => `click('${bidOf(node)}')`;
export const fill = (node: TreeNode, text: string): string => `fill('${bidOf(node)}', ${quote(text)})`;
export const press = (node: TreeNode, key: string): string => `press('${bidOf(node)}', ${quote(key)})`;
export const select = (node: TreeNode, options: readonly string[]): string =>
  `select_option('${bidOf(node)}', [${options.map(quote).join(", ")}])`;

/** The words of a list: "Nb, Gh and 11LO". */
export function listed(text: string): string[] {
  return text
    .split(/, | and /u)
    .map((word) => word.trim())
    .filter(Boolean);
}

/** What a pattern finds in the goal. */
export function asked(page: PageTree, pattern: RegExp): string[] {
  const found = pattern.exec(page.goal);
  if (found === null) throw new Error(`${pattern} is not in "${page.goal}"`);
  return found.slice(1);
}

const ORDINALS = ["1st", "2nd", "3rd"];

/** "2nd" → 1. */
export function indexOf(ordinal: string): number {
  const index = ORDINALS.indexOf(ordinal);
  return index >= 0 ? index : Number.parseInt(ordinal, 10) - 1;
}

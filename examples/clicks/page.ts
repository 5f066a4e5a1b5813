// SPDX-License-Identifier: Apache-2.0
// A page as a small model reads it: the goal, and a line for each element that can be clicked. See README.md.

export interface Clickable {
  readonly bid: string;
  readonly role: string;
  /** As the page shows it; of elements that show nothing their number among those of their role: "2". */
  readonly name: string;
}

const NODE = /^\t*\[(\w+)\] (button|link|tab|checkbox|radio|textbox) (?:'([^']*)'|"([^"]*)")(?:.*? value='([^']*)')?/u;

/** How elements are named, the first of a page first; of more than these nobody is told. */
export const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/** Of an accessibility tree as the environment `browser` writes it. Of several with one name the innermost. */
export function clickablesOf(tree: string): Clickable[] {
  const found = new Map<string, Clickable>();
  const ofRole = new Map<string, number>();
  for (const line of tree.split("\n")) {
    const [, bid, role = "", single, double, value] = NODE.exec(line) ?? [];
    if (bid === undefined) continue;
    const number = (ofRole.get(role) ?? 0) + 1;
    ofRole.set(role, number);
    const name = single || double || value || String(number);
    found.set(name, { bid, role, name });
  }
  return [...found.values()].slice(0, LETTERS.length);
}

export function pageText(goal: string, elements: readonly Pick<Clickable, "role" | "name">[]): string {
  return [goal, ...elements.map(({ role, name }, i) => `${LETTERS[i]} ${role} ${name}`)].join("\n");
}

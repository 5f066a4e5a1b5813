// SPDX-License-Identifier: Apache-2.0
// Python's idea of white space, which the formats' own parsers are written in: JavaScript's lacks some separators and has one more.

const SPACE = String.raw`[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]`;
const SPACES = new RegExp(`${SPACE}+`, "u");
const LEADING = new RegExp(`^${SPACE}+`, "u");

/** `text.split()` */
export function words(text: string): string[] {
  return text.split(SPACES).filter((word) => word !== "");
}

/** `text.strip()` */
export function strip(text: string): string {
  return stripEnd(text.replace(LEADING, ""));
}

/** Backwards by hand: a pattern that is tied to the end alone is tried from every space. */
function stripEnd(text: string): string {
  let end = text.length;
  while (end > 0 && SPACES.test(text[end - 1] ?? "")) end -= 1;
  return text.slice(0, end);
}

/** What stands before the first `separator`; the whole text where there is none. */
export function before(text: string, separator: string): string {
  const at = text.indexOf(separator);
  return at < 0 ? text : text.slice(0, at);
}

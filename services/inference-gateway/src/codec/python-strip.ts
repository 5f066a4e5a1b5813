// SPDX-License-Identifier: Apache-2.0
// `@huggingface/jinja` ignores the argument of `strip`, `lstrip` and `rstrip`, which Qwen's templates give:
// `content.lstrip('\n')` must keep the spaces after the line break. The calls are turned into calls of the functions
// below, when the template is parsed: `x.lstrip(chars)` becomes `lstrip(x, chars)`.

/** Python's own idea of whitespace; JavaScript's differs by U+FEFF, U+0085 and U+001C to U+001F. */
const WHITESPACE =
  "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" +
  "\u2028\u2029\u202f\u205f\u3000";

/** The variables that a rewritten template needs. */
export const STRIP_FUNCTIONS = {
  strip: (text: string, chars?: string | null) => lstrip(rstrip(text, chars), chars),
  lstrip,
  rstrip,
};

function lstrip(text: string, chars?: string | null): string {
  const stripped = setOf(chars);
  let start = 0;
  for (const character of text) {
    if (!stripped.has(character)) break;
    start += character.length;
  }
  return start === 0 ? text : text.slice(start);
}

function rstrip(text: string, chars?: string | null): string {
  const stripped = setOf(chars);
  let end = text.length;
  while (end > 0) {
    // A character beyond 16 bits has two units; looking at the last two tells.
    const pair = text.slice(Math.max(0, end - 2), end);
    const character = [...pair].at(-1) ?? "";
    if (!stripped.has(character)) break;
    end -= character.length;
  }
  return end === text.length ? text : text.slice(0, end);
}

const SPACES: ReadonlySet<string> = new Set(WHITESPACE);

function setOf(chars: string | null | undefined): ReadonlySet<string> {
  return chars === undefined || chars === null ? SPACES : new Set(chars);
}

interface Node {
  type?: unknown;
  callee?: Node;
  args?: unknown[];
  object?: Node;
  property?: Node;
  computed?: boolean;
  value?: unknown;
}

/** Rewrites a parsed template in place. */
export function rewriteStripCalls(node: unknown): void {
  if (typeof node !== "object" || node === null) return;
  const children = node instanceof Map ? [...node.entries()].flat() : Object.values(node);
  for (const child of children) rewriteStripCalls(child);
  const { type, callee, args } = node as Node;
  if (type !== "CallExpression" || callee?.type !== "MemberExpression" || callee.computed === true) return;
  if (!["strip", "lstrip", "rstrip"].includes(String(callee.property?.value))) return;
  Object.assign(node, { callee: callee.property, args: [callee.object, ...(args ?? [])] });
}

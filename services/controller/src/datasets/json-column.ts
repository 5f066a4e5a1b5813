// SPDX-License-Identifier: Apache-2.0

/** A token of JSON with the white space before it: text, number, word or sign. */
const TOKEN =
  /[ \t\r\n]*(?:("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|([{}[\],:]))/y;
const SPACE = /[ \t\r\n]*/y;

type Expected = "value" | "value or ]" | "key" | "key or }" | ":" | ", or end" | "nothing";

/**
 * Where a text stops being JSON: a column from 1, by characters. `JSON.parse` says so only at times, and quotes the text,
 * which may be nobody's business. @returns undefined for JSON
 */
export function jsonFaultColumn(text: string): number | undefined {
  const open: string[] = [];
  let expected: Expected = "value";
  let at = 0;
  while (expected !== "nothing") {
    const start = afterSpace(text, at);
    TOKEN.lastIndex = at;
    const [token, quoted, sign] = TOKEN.exec(text) ?? [];
    const next: Expected | undefined =
      token === undefined ? undefined : after(expected, sign, quoted !== undefined, open);
    if (token === undefined || next === undefined) return start + 1;
    at += token.length;
    expected = next;
  }
  const end = afterSpace(text, at);
  return end === text.length ? undefined : end + 1;
}

function afterSpace(text: string, at: number): number {
  SPACE.lastIndex = at;
  return at + (SPACE.exec(text)?.[0].length ?? 0);
}

/** What may come after this token, where `expected` was due. Undefined: it is not what was due. */
function after(expected: Expected, sign: string | undefined, isText: boolean, open: string[]): Expected | undefined {
  switch (expected) {
    case "key":
      return isText ? ":" : undefined;
    case "key or }":
      return isText ? ":" : closed(sign, "}", open);
    case ":":
      return sign === ":" ? "value" : undefined;
    case ", or end":
      return rest(sign, open);
    case "value":
      return value(sign, false, open);
    case "value or ]":
      return value(sign, true, open);
    case "nothing":
      return undefined;
  }
}

function rest(sign: string | undefined, open: string[]): Expected | undefined {
  const isObject = open.at(-1) === "{";
  if (sign === ",") return isObject ? "key" : "value";
  return closed(sign, isObject ? "}" : "]", open);
}

function closed(sign: string | undefined, due: string, open: string[]): Expected | undefined {
  return sign === due ? close(open) : undefined;
}

function value(sign: string | undefined, mayClose: boolean, open: string[]): Expected | undefined {
  if (sign === "{" || sign === "[") {
    open.push(sign);
    return sign === "{" ? "key or }" : "value or ]";
  }
  if (sign === "]" && mayClose) return close(open);
  return sign === undefined ? (open.length > 0 ? ", or end" : "nothing") : undefined;
}

function close(open: string[]): Expected {
  open.pop();
  return open.length > 0 ? ", or end" : "nothing";
}

// SPDX-License-Identifier: Apache-2.0
import { MathError } from "./math-error.ts";

/** `command` has no backslash: "frac". `name` is a run of letters. `symbol` is one character. */
export interface Token {
  readonly kind: "number" | "name" | "command" | "symbol" | "end";
  readonly text: string;
}

/** Longer texts are no answers, and take too long to read. */
export const MAX_EXPRESSION_CHARACTERS = 1000;

const TOKEN = /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-zα-ωΑ-Ω]+)|\\([A-Za-z]+)|(\S))/uy;

/** @throws MathError when it is too long. */
export function tokenize(text: string): Token[] {
  if (text.length > MAX_EXPRESSION_CHARACTERS) {
    throw new MathError(`an expression has at most ${MAX_EXPRESSION_CHARACTERS} characters, not ${text.length}`);
  }
  const tokens: Token[] = [];
  const trimmed = text.trimEnd();
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < trimmed.length) {
    const match = TOKEN.exec(trimmed);
    if (match === null) throw new MathError("unreadable expression");
    tokens.push(tokenOf(match));
  }
  return tokens;
}

function tokenOf([, number, name, command, symbol = ""]: RegExpExecArray): Token {
  if (number !== undefined) return { kind: "number", text: number };
  if (name !== undefined) return { kind: "name", text: name };
  if (command !== undefined) return { kind: "command", text: command };
  return { kind: "symbol", text: symbol };
}

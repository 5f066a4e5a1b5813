// SPDX-License-Identifier: Apache-2.0
// Reads calls with literals as arguments, as Python writes them. Nothing is ever executed.
import type { ReadCall } from "./format.ts";
import { goodCall, malformedCall } from "./read-json.ts";

/** `[f(a=1), g(b="x")]`. What is not that is one malformed call, named after the first. */
export function readPythonCalls(text: string): ReadCall[] {
  try {
    return new Reader(text.trim()).calls();
  } catch {
    return [malformedCall(/^\[?\s*([A-Za-z_][\w.]*)\s*\(/.exec(text.trim())?.[1], text)];
  }
}

const WORDS: Readonly<Record<string, unknown>> = {
  ...{ True: true, False: false, None: null, true: true, false: false, null: null },
};
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0" };
/** Deeper values would end in a stack overflow. */
const MAX_DEPTH = 64;

class Reader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  calls(): ReadCall[] {
    this.#expect("[");
    const calls = this.#items("]", () => this.#call());
    if (this.#peek() !== "") throw new Error("something stands after the list");
    return calls;
  }

  #call(): ReadCall {
    const name = this.#match(/[A-Za-z_][\w.]*/y);
    this.#expect("(");
    const entries = this.#items(")", () => {
      const key = this.#match(/[A-Za-z_]\w*/y);
      this.#expect("=");
      return [key, this.#value()] as const;
    });
    return goodCall(name, Object.fromEntries(entries));
  }

  #value(): unknown {
    if (++this.#depth > MAX_DEPTH) throw new Error("nested too deep");
    const next = this.#peek();
    const value = this.#valueFrom(next);
    this.#depth--;
    return value;
  }

  #valueFrom(next: string): unknown {
    if (next === '"' || next === "'") return this.#string(next);
    if (next === "[" || next === "(") {
      this.#at++;
      return this.#items(next === "[" ? "]" : ")", () => this.#value());
    }
    if (next === "{") return this.#mapping();
    if (/[-+.\d]/.test(next))
      return Number(this.#match(/[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?/y).replaceAll("_", ""));
    const word = this.#match(/[A-Za-z]+/y);
    if (!(word in WORDS)) throw new Error("not a literal");
    return WORDS[word];
  }

  #mapping(): object {
    this.#expect("{");
    const entries = this.#items("}", () => {
      const key = this.#value();
      this.#expect(":");
      return [String(key), this.#value()] as const;
    });
    return Object.fromEntries(entries);
  }

  #string(quote: string): string {
    let value = "";
    for (this.#at++; ; this.#at++) {
      const char = this.#text[this.#at];
      if (char === undefined) throw new Error("the text is not closed");
      if (char === quote) break;
      if (char === "\\") value += this.#escape();
      else value += char;
    }
    this.#at++;
    return value;
  }

  #escape(): string {
    const char = this.#text[++this.#at] ?? "";
    const width = { x: 2, u: 4, U: 8 }[char];
    if (width === undefined) return ESCAPES[char] ?? char;
    const code = Number.parseInt(this.#text.slice(this.#at + 1, this.#at + 1 + width), 16);
    this.#at += width;
    return String.fromCodePoint(code);
  }

  /** Items apart by commas up to the closing mark; one comma may stand before it. */
  #items<T>(close: string, read: () => T): T[] {
    const items: T[] = [];
    while (this.#peek() !== close) {
      items.push(read());
      if (this.#peek() !== ",") break;
      this.#at++;
    }
    this.#expect(close);
    return items;
  }

  #peek(): string {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++;
    return this.#text[this.#at] ?? "";
  }

  #expect(mark: string): void {
    if (this.#peek() !== mark) throw new Error(`expected ${mark}`);
    this.#at++;
  }

  #match(pattern: RegExp): string {
    this.#peek();
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) throw new Error("unreadable");
    this.#at += found.length;
    return found;
  }
}

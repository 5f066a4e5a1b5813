// SPDX-License-Identifier: Apache-2.0
// BrowserGym's grammar of actions: calls in Python's syntax, `click('12', button="right")`. The source of truth is its own parser
// (browsergym.core.action.parsers, with pyparsing), which finds calls anywhere in a text and skips what stands between.

export type Literal = string | number | boolean | null | readonly Literal[] | { readonly [key: string]: Literal };

export interface Call {
  readonly name: string;
  readonly positional: readonly Literal[];
  readonly named: Readonly<Record<string, Literal>>;
}

/** A model's text may be long; what is longer has no end of its own. */
const MAX_CHARACTERS = 100_000;
const MAX_CALLS = 64;
const MAX_DEPTH = 16;

/** All calls of a text, in order. */
export function parseCalls(text: string): Call[] {
  const reader = new Reader(text.slice(0, MAX_CHARACTERS));
  const calls: Call[] = [];
  while (calls.length < MAX_CALLS) {
    reader.skip();
    if (reader.isAtEnd) break;
    const start = reader.at;
    const call = reader.attempt(() => reader.call());
    if (call !== undefined) calls.push(call);
    else reader.at = start + 1;
  }
  return calls;
}

class NoMatch extends Error {}

const SPACE = /[ \t\n\r]*/uy;
const COMMENT = /#.*/uy;
const IDENTIFIER = /[\p{L}_][\p{L}\p{N}_]*/uy;
const NUMBER = /[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)/uy;
/** Three quotes may hold line ends, one may not. */
const STRING =
  /"""(?:[^"\\]|"(?!"")|\\[\s\S])*"""|'''(?:[^'\\]|'(?!'')|\\[\s\S])*'''|"(?:[^"\n\\]|\\[\s\S])*"|'(?:[^'\n\\]|\\[\s\S])*'/uy;
const KEYWORDS: Readonly<Record<string, boolean | null>> = { True: true, False: false, None: null };

class Reader {
  readonly #text: string;
  at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get isAtEnd(): boolean {
    return this.at >= this.#text.length;
  }

  /** Spaces and comments. */
  skip(): void {
    do this.#match(SPACE);
    while (this.#match(COMMENT) !== undefined);
  }

  attempt<T>(read: () => T): T | undefined {
    const start = this.at;
    const depth = this.#depth;
    try {
      return read();
    } catch (error) {
      if (!(error instanceof NoMatch)) throw error;
      this.at = start;
      this.#depth = depth;
      return undefined;
    }
  }

  call(): Call {
    const name = this.#need(IDENTIFIER);
    this.#token("(");
    const positional: Literal[] = [];
    const named: Record<string, Literal> = {};
    while (!this.#has(")")) {
      const argument = this.attempt(() => this.#named());
      if (argument !== undefined) named[argument[0]] = argument[1];
      else if (Object.keys(named).length === 0) positional.push(this.#element());
      else throw new NoMatch();
      if (this.#has(",")) continue;
      this.#token(")");
      break;
    }
    return { name, positional, named };
  }

  #named(): [string, Literal] {
    const name = this.#need(IDENTIFIER);
    this.#token("=");
    return [name, this.#element()];
  }

  #element(): Literal {
    this.skip();
    if (++this.#depth > MAX_DEPTH) throw new NoMatch();
    const value = this.#value();
    this.#depth -= 1;
    return value;
  }

  #value(): Literal {
    const text = this.#match(STRING);
    if (text !== undefined) return unquote(text);
    const number = this.#match(NUMBER);
    if (number !== undefined) return Number(number);
    if (this.#has("[")) return this.#items("]");
    if (this.#has("(")) return this.#items(")");
    if (this.#has("{")) return this.#entries();
    const word = this.#need(IDENTIFIER);
    const keyword = KEYWORDS[word];
    if (keyword === undefined) throw new NoMatch();
    return keyword;
  }

  #items(end: string): Literal[] {
    const items: Literal[] = [];
    while (!this.#has(end)) {
      items.push(this.#element());
      if (this.#has(",")) continue;
      this.#token(end);
      break;
    }
    return items;
  }

  #entries(): Record<string, Literal> {
    const entries: Record<string, Literal> = {};
    while (!this.#has("}")) {
      this.skip();
      const key = unquote(this.#need(STRING));
      this.#token(":");
      entries[key] = this.#element();
      if (this.#has(",")) continue;
      this.#token("}");
      break;
    }
    return entries;
  }

  #has(token: string): boolean {
    this.skip();
    if (!this.#text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }

  #token(token: string): void {
    if (!this.#has(token)) throw new NoMatch();
  }

  #need(pattern: RegExp): string {
    this.skip();
    const found = this.#match(pattern);
    if (found === undefined) throw new NoMatch();
    return found;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined || (found === "" && pattern !== SPACE)) return undefined;
    this.at += found.length;
    return found;
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ n: "\n", t: "\t", r: "\r", "\\": "\\", "'": "'", '"': '"', a: "\x07", b: "\b", f: "\f", v: "\v", "\n": "" },
};
const ESCAPE = /\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|[\s\S])/gu;

/** Python's escapes; what it does not know stays as it is. */
function unquote(quoted: string): string {
  const quotes = /^("""|'''|"|')/u.exec(quoted)?.[0].length ?? 1;
  return quoted.slice(quotes, -quotes).replaceAll(ESCAPE, (all, said: string) => {
    if (/^[xuU]./u.test(said)) return String.fromCodePoint(Math.min(Number.parseInt(said.slice(1), 16), 0x10ffff));
    if (/^[0-7]/u.test(said)) return String.fromCodePoint(Number.parseInt(said, 8));
    return ESCAPES[said] ?? all;
  });
}

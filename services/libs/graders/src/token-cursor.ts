// SPDX-License-Identifier: Apache-2.0
import { MathError } from "./math-error.ts";
import type { Token } from "./math-lexer.ts";

export const END: Token = { kind: "end", text: "the end" };

/** Where a reader stands in its tokens. */
export abstract class TokenCursor {
  readonly #tokens: Token[];
  #at = 0;

  constructor(tokens: Token[]) {
    this.#tokens = tokens;
  }

  protected peek(): Token {
    return this.#tokens[this.#at] ?? END;
  }

  protected next(): Token {
    const token = this.peek();
    this.#at += 1;
    return token;
  }

  protected take(symbol: string): boolean {
    const token = this.peek();
    if (token.kind !== "symbol" || token.text !== symbol) return false;
    this.#at += 1;
    return true;
  }

  protected expect(symbol: string): void {
    if (!this.take(symbol)) throw new MathError(`expected "${symbol}" before ${described(this.peek())}`);
  }

  protected unexpected(): MathError {
    return new MathError(`unexpected ${described(this.peek())}`);
  }

  /** The token read last. */
  protected get previous(): Token | undefined {
    return this.#tokens[this.#at - 1];
  }

  /** What is read next instead of the token at hand. */
  protected replaceNext(token: Token): void {
    this.#tokens[this.#at] = token;
  }

  /** Part of the token read last is read again. */
  protected putBack(token: Token): void {
    this.#at -= 1;
    this.#tokens[this.#at] = token;
  }
}

function described(token: Token): string {
  return token === END ? token.text : `"${token.text.slice(0, 40)}"`;
}

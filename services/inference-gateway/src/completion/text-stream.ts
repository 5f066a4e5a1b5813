// SPDX-License-Identifier: Apache-2.0
/** Turns ids that arrive bit by bit into text that arrives bit by bit; the pieces together are the text of all ids. */
export class TextStream {
  readonly #decode: (ids: readonly number[]) => string;
  readonly #ids: number[] = [];
  /** Tokens before this one are no longer needed to decode the next. */
  #from = 0;
  /** Text of the tokens from `#from` on that was handed out already. */
  #shown = "";
  #text = "";

  constructor(decode: (ids: readonly number[]) => string) {
    this.#decode = decode;
  }

  /** All text handed out so far. */
  get text(): string {
    return this.#text;
  }

  /** The text that these ids add; "" while a character is incomplete. */
  push(ids: readonly number[]): string {
    for (const id of ids) this.#ids.push(id);
    const window = this.#decode(this.#ids.slice(this.#from));
    // A byte-level token may end inside a character, which decodes to U+FFFD until the rest has come.
    if (window.endsWith("\uFFFD") || !window.startsWith(this.#shown)) return "";
    return this.#show(window);
  }

  /** What is left, complete or not. */
  end(): string {
    return this.#show(this.#decode(this.#ids.slice(this.#from)));
  }

  #show(window: string): string {
    const added = window.slice(this.#shown.length);
    this.#text += added;
    this.#shown = window;
    if (this.#ids.length - this.#from > WINDOW_TOKENS) this.#moveWindow();
    return added;
  }

  /** Some decoders look at the token before (spaces between words), so a few stay. */
  #moveWindow(): void {
    this.#from = this.#ids.length - KEPT_TOKENS;
    this.#shown = this.#decode(this.#ids.slice(this.#from));
  }
}

const WINDOW_TOKENS = 32;
const KEPT_TOKENS = 8;

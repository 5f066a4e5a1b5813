// SPDX-License-Identifier: Apache-2.0
/**
 * Cuts a text that comes bit by bit before the first of some strings. What may be the beginning of one waits until it is
 * known; what comes after one is dropped.
 */
export class StopFilter {
  readonly #stops: readonly string[];
  #waiting = "";
  #found: string | undefined;

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** The string that came; undefined: none did. */
  get found(): string | undefined {
    return this.#found;
  }

  /** The text that certainly stands before any of the strings. */
  push(text: string): string {
    if (this.#found !== undefined) return "";
    const whole = this.#waiting + text;
    const found = this.#stops.map((stop) => ({ stop, at: whole.indexOf(stop) })).filter(({ at }) => at >= 0);
    const first = found.toSorted((a, b) => a.at - b.at)[0];
    const end = first?.at ?? whole.length - this.#beginning(whole);
    this.#found = first?.stop;
    this.#waiting = first ? "" : whole.slice(end);
    return whole.slice(0, end);
  }

  /** What waited in vain. */
  end(): string {
    const rest = this.#waiting;
    this.#waiting = "";
    return rest;
  }

  /** How many characters at the end may be the beginning of a string. */
  #beginning(text: string): number {
    const longest = Math.max(...this.#stops.map((stop) => stop.length));
    for (let size = Math.min(longest - 1, text.length); size > 0; size--) {
      const tail = text.slice(text.length - size);
      if (this.#stops.some((stop) => stop.startsWith(tail))) return size;
    }
    return 0;
  }
}

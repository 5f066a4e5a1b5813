// SPDX-License-Identifier: Apache-2.0
/** What all entries together may weigh. */
interface Weighed<K, V> {
  readonly limit: number;
  of(key: K, value: V): number;
}

/** Keeps the `limit` most recently used entries, fewer where they weigh too much. */
export class Lru<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #limit: number;
  readonly #weighed: Weighed<K, V>;
  #weight = 0;

  /** @param weighed  default: entries have no weight. */
  constructor(limit: number, weighed: Weighed<K, V> = { limit: 0, of: () => 0 }) {
    this.#limit = limit;
    this.#weighed = weighed;
  }

  /** The value, marked as the newest. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    // A map iterates in order of insertion, so the first entry is the one that was unused for longest.
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  delete(key: K): void {
    const value = this.#entries.get(key);
    if (value === undefined) return;
    this.#entries.delete(key);
    this.#weight -= this.#weighed.of(key, value);
  }

  /** The most recently used last. */
  entries(): Iterable<[K, V]> {
    return this.#entries.entries();
  }

  set(key: K, value: V): void {
    this.delete(key);
    this.#entries.set(key, value);
    this.#weight += this.#weighed.of(key, value);
    while (this.#entries.size > this.#limit || this.#weight > this.#weighed.limit) {
      const oldest = this.#entries.keys().next();
      if (oldest.done === true) return;
      this.delete(oldest.value);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
/** Keeps the `limit` most recently used entries. */
export class Lru<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
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
    this.#entries.delete(key);
  }

  /** The most recently used last. */
  entries(): Iterable<[K, V]> {
    return this.#entries.entries();
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#limit) return;
    const oldest = this.#entries.keys().next();
    if (oldest.done !== true) this.#entries.delete(oldest.value);
  }
}

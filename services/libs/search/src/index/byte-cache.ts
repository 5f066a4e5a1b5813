// SPDX-License-Identifier: Apache-2.0

/** Keeps what was used last, up to so many bytes. What is larger than a quarter of it is not kept, so that one thing cannot push out all. */
export class ByteCache<Key> {
  readonly #maxBytes: number;
  readonly #entries = new Map<Key, Uint8Array>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async get(key: Key, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const known = this.#entries.get(key);
    if (known !== undefined) {
      this.#entries.delete(key); // Put again at the end: the map's order is that of use.
      this.#entries.set(key, known);
      return known;
    }
    const value = await read();
    if (value.length * 4 <= this.#maxBytes && !this.#entries.has(key)) this.#put(key, value);
    return value;
  }

  #put(key: Key, value: Uint8Array): void {
    this.#entries.set(key, value);
    this.#bytes += value.length;
    for (const [oldest, { length }] of this.#entries) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#entries.delete(oldest);
      this.#bytes -= length;
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
// Unsigned integers below 2^31 in groups of seven bits, the lowest first; the high bit says that more follow.

export class VarintBuffer {
  #bytes = new Uint8Array(16);
  #length = 0;

  push(value: number): void {
    if (this.#length + 5 > this.#bytes.length) this.#grow();
    let rest = value;
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.#bytes[this.#length++] = rest;
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #grow(): void {
    const larger = new Uint8Array(this.#bytes.length * 2);
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}

/** Reads what `VarintBuffer` wrote. */
export class VarintReader {
  at = 0;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isDone(): boolean {
    return this.at >= this.#bytes.length;
  }

  next(): number {
    const bytes = this.#bytes;
    let byte = bytes[this.at++] as number;
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    for (let shift = 7; ; shift += 7) {
      byte = bytes[this.at++] as number;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80 || byte === undefined) return value;
    }
  }
}

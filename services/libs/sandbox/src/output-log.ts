// SPDX-License-Identifier: Apache-2.0
import type { OutputChunk } from "./sandbox.ts";

// O1: at most `maxBytes` are kept, whatever comes. O2: a byte's number never changes. O3: what is missing is counted.

type Kept = Omit<OutputChunk, "cutBytes">;

/** Dropped chunks stay in the array until there are so many: dropping one must not cost a copy of all. */
const DROPPED_AT_MOST = 1024;

const JOINED_BYTES = 4096;

/** Short ones are joined, since a program may write each byte on its own. */
function append(list: Kept[], chunk: Kept, most: number): void {
  const last = list.at(-1);
  const follows = last?.stream === chunk.stream && last.sequence + last.data.length === chunk.sequence;
  if (last === undefined || !follows || last.data.length + chunk.data.length > most) list.push(chunk);
  else list[list.length - 1] = { ...last, data: Buffer.concat([last.data, chunk.data]) };
}

/** The output of a command: its first half and its last half, and how much is missing between them. */
export class OutputLog {
  readonly #halfBytes: number;
  readonly #joinedBytes: number;
  readonly #first: Kept[] = [];
  #last: Kept[] = [];
  #lastBytes = 0;
  #dropped = 0;
  #totalBytes = 0;
  #ended = false;
  #change = Promise.withResolvers<void>();

  constructor(maxBytes: number) {
    this.#halfBytes = Math.max(1, Math.floor(maxBytes / 2));
    this.#joinedBytes = Math.min(JOINED_BYTES, this.#halfBytes / 8);
  }

  get totalBytes(): number {
    return this.#totalBytes;
  }

  get cutBytes(): number {
    return this.#totalBytes - Math.min(this.#totalBytes, this.#halfBytes) - this.#lastBytes;
  }

  add(stream: Kept["stream"], bytes: Uint8Array): void {
    const room = Math.max(0, this.#halfBytes - this.#totalBytes);
    const [head, tail] = [bytes.subarray(0, room), bytes.subarray(room)];
    if (head.length > 0) append(this.#first, { sequence: this.#totalBytes, stream, data: head }, this.#joinedBytes);
    this.#totalBytes += bytes.length;
    if (tail.length > 0) this.#addLast(stream, tail.subarray(-this.#halfBytes));
    this.#tell();
  }

  end(): void {
    this.#ended = true;
    this.#tell();
  }

  /** Follows the output until its end. @param from  the number of the first byte that is wanted */
  async *chunks(from = 0): AsyncGenerator<OutputChunk, undefined, undefined> {
    let next = from;
    for (;;) {
      const change = this.#change.promise;
      for (const { sequence, stream, data } of this.#kept()) {
        const known = Math.max(0, next - sequence);
        if (known >= data.length) continue;
        yield {
          sequence: sequence + known,
          stream,
          data: data.subarray(known),
          cutBytes: Math.max(0, sequence - next),
        };
        next = sequence + data.length;
      }
      if (this.#ended && next >= this.#totalBytes) return undefined;
      await change;
    }
  }

  /** All that is kept of one stream, with a line where something was cut. */
  text(stream: Kept["stream"]): string {
    const decode = (kept: readonly Kept[]): string =>
      Buffer.concat(kept.filter((chunk) => chunk.stream === stream).map(({ data }) => data)).toString("utf8");
    const cut = this.cutBytes > 0 ? `\n… ${this.cutBytes} bytes of output left out …\n` : "";
    return decode(this.#first) + cut + decode(this.#last.slice(this.#dropped));
  }

  #kept(): readonly Kept[] {
    return [...this.#first, ...this.#last.slice(this.#dropped)];
  }

  #addLast(stream: Kept["stream"], data: Uint8Array): void {
    append(this.#last, { sequence: this.#totalBytes - data.length, stream, data }, this.#joinedBytes);
    this.#lastBytes += data.length;
    while (this.#lastBytes > this.#halfBytes) this.#dropOldest();
    if (this.#dropped <= DROPPED_AT_MOST) return;
    this.#last = this.#last.slice(this.#dropped);
    this.#dropped = 0;
  }

  #dropOldest(): void {
    const oldest = this.#last[this.#dropped++];
    this.#lastBytes -= oldest?.data.length ?? 0;
  }

  #tell(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers<void>();
  }
}

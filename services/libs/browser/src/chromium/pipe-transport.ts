// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import type { ConnectOverCDPTransport } from "playwright-core";

/** No message of Chromium's comes near it; one that does is not read on. */
const MAX_MESSAGE_BYTES = 256 * 2 ** 20;

/** The DevTools protocol over one socket: each message is JSON and ends with a zero byte. */
export class PipeTransport implements ConnectOverCDPTransport {
  onmessage?: (message: object) => void;
  onclose?: (reason?: string) => void;
  readonly #channel: Duplex;
  #parts: Buffer[] = [];
  #bytes = 0;
  #isClosed = false;

  constructor(channel: Duplex) {
    this.#channel = channel;
    channel.on("data", (data: Buffer) => this.#read(data));
    for (const event of ["close", "end", "error"]) channel.once(event, () => this.close());
  }

  send(message: object): void {
    if (!this.#isClosed) this.#channel.write(`${JSON.stringify(message)}\0`);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#channel.destroy();
    this.onclose?.();
  }

  #read(data: Buffer): void {
    for (let from = 0; from < data.length;) {
      const end = data.indexOf(0, from);
      const part = data.subarray(from, end < 0 ? undefined : end);
      this.#parts.push(part);
      this.#bytes += part.length;
      if (this.#bytes > MAX_MESSAGE_BYTES) this.close();
      if (end < 0 || this.#isClosed) return;
      const text = Buffer.concat(this.#parts).toString("utf8");
      this.#parts = [];
      this.#bytes = 0;
      from = end + 1;
      this.onmessage?.(JSON.parse(text) as object);
    }
  }
}

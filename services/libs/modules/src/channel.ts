// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import { deserialize, serialize } from "node:v8";

// Not Node's own channel between processes: messages of its own travel there, too, and a child that sends the wrong ones
// ends its parent. Here each message is its length in four bytes, and a structured clone.

const HEADER_BYTES = 4;
/** More than the largest episode that can be stored. */
const MAX_MESSAGE_BYTES = 512 * 1024 * 1024;

export interface ChannelEvents<In> {
  readonly take: (message: In) => void;
  /** What came is no message, or `take` threw: nothing more is read. */
  readonly broken: (error: Error) => void;
  /** The other side is gone. */
  readonly closed?: () => void;
}

/** Messages over a socket between two processes, in order. */
export class Channel<Out, In> {
  readonly #socket: Duplex;
  readonly #events: ChannelEvents<In>;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #wanted = HEADER_BYTES;
  #inBody = false;

  constructor(socket: Duplex, events: ChannelEvents<In>) {
    this.#socket = socket;
    this.#events = events;
    socket.on("error", () => undefined); // "close" follows.
    socket.on("data", (chunk: Buffer) => {
      this.#read(chunk);
    });
    socket.once("end", () => socket.destroy());
    socket.once("close", () => events.closed?.());
  }

  /** @throws DataCloneError for what cannot be cloned; nothing is sent then. @param sent  called when it has left this process */
  send(message: Out, sent?: () => void): void {
    const body = serialize(message);
    if (this.#socket.destroyed) return sent?.();
    const header = Buffer.allocUnsafe(HEADER_BYTES);
    header.writeUInt32LE(body.length);
    this.#socket.cork();
    this.#socket.write(header);
    this.#socket.write(body, () => sent?.());
    this.#socket.uncork();
  }

  #read(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    try {
      while (this.#bytes >= this.#wanted) this.#advance();
    } catch (error) {
      this.#chunks = [];
      this.#socket.destroy();
      this.#events.broken(error as Error);
    }
  }

  #advance(): void {
    const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    const part = all.subarray(0, this.#wanted);
    this.#chunks = all.length > part.length ? [all.subarray(part.length)] : [];
    this.#bytes -= part.length;
    this.#inBody = !this.#inBody;
    if (this.#inBody) this.#wanted = sizeOf(part);
    else {
      this.#wanted = HEADER_BYTES;
      this.#events.take(deserialize(part) as In);
    }
  }
}

function sizeOf(header: Buffer): number {
  const size = header.readUInt32LE();
  if (size > MAX_MESSAGE_BYTES) throw new Error(`a message of ${size} bytes; at most ${MAX_MESSAGE_BYTES} are taken`);
  return size;
}

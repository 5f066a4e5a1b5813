// SPDX-License-Identifier: Apache-2.0
// What an engine sends of an attached container: stream (1 byte), three bytes of nothing, length (4), data.
import { Duplex, Transform, type TransformCallback } from "node:stream";

const HEAD = 8;
const STDOUT = 1;
/** Of what the container's first process complains about, which is a line. */
const MAX_COMPLAINT = 2000;

export interface AttachedPipe {
  /** The container's standard input, and what it writes to standard output. */
  readonly pipe: Duplex;
  /** The beginning of what it wrote to standard error. */
  readonly complaint: () => string;
}

/** Takes the streams of a container apart. */
export function attachedPipe(socket: Duplex): AttachedPipe {
  let complaint = "";
  const parts = new Parts((stream, data) => {
    if (stream === STDOUT) parts.push(data);
    else if (complaint.length < MAX_COMPLAINT) complaint += data.toString("utf8", 0, MAX_COMPLAINT);
  });
  socket.on("error", (error) => parts.destroy(error));
  socket.pipe(parts);
  const pipe = Duplex.from({ writable: socket, readable: parts });
  pipe.once("close", () => socket.destroy());
  // Whoever waits for an answer hears of it.
  for (const stream of [parts, pipe]) stream.on("error", () => undefined);
  return { pipe, complaint: () => complaint };
}

class Parts extends Transform {
  readonly #take: (stream: number, data: Buffer) => void;
  readonly #head = Buffer.alloc(HEAD);
  #headBytes = 0;
  /** Of the part that is being read. */
  #left = 0;

  constructor(take: (stream: number, data: Buffer) => void) {
    super();
    this.#take = take;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    for (let rest = chunk; rest.length > 0;) rest = this.#left > 0 ? this.#readData(rest) : this.#readHead(rest);
    done();
  }

  #readHead(bytes: Buffer): Buffer {
    const taken = bytes.copy(this.#head, this.#headBytes);
    this.#headBytes += taken;
    if (this.#headBytes === HEAD) {
      this.#headBytes = 0;
      this.#left = this.#head.readUInt32BE(4);
    }
    return bytes.subarray(taken);
  }

  #readData(bytes: Buffer): Buffer {
    const data = bytes.subarray(0, this.#left);
    this.#left -= data.length;
    this.#take(this.#head[0] ?? 0, data);
    return bytes.subarray(data.length);
  }
}

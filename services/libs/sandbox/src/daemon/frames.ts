// SPDX-License-Identifier: Apache-2.0
// What a daemon's stream is made of: kind (1 byte), number of the first byte (8), length (4), data.
import { WhetstoneError } from "@whetstone/core";

const HEAD = 13;
/** No frame of the daemon's is longer. */
const MAX_BYTES = 1024 * 1024;

export const FRAMES = { alive: 0, stdout: 1, stderr: 2, end: 3, lost: 4 } as const;

export interface Frame {
  readonly kind: number;
  readonly sequence: number;
  readonly data: Buffer;
}

/** @throws WhetstoneError UNAVAILABLE when the stream ends within a frame. */
export async function* readFrames(stream: AsyncIterable<unknown>): AsyncGenerator<Frame, undefined, undefined> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const part of stream) {
    rest = rest.length === 0 ? (part as Buffer) : Buffer.concat([rest, part as Buffer]);
    for (;;) {
      const frame = takeFrame(rest);
      if (frame === undefined) break;
      rest = rest.subarray(HEAD + frame.data.length);
      yield frame;
    }
  }
  if (rest.length > 0) throw new WhetstoneError("UNAVAILABLE", "the sandbox's answer ended within a frame");
  return undefined;
}

function takeFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < HEAD) return undefined;
  const length = bytes.readUInt32BE(9);
  if (length > MAX_BYTES) throw new WhetstoneError("DATA_LOSS", `the sandbox sent a frame of ${length} bytes`);
  if (bytes.length < HEAD + length) return undefined;
  const sequence = Number(bytes.readBigUInt64BE(1));
  return { kind: bytes[0] ?? 0, sequence, data: bytes.subarray(HEAD, HEAD + length) };
}

// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { Duplex, PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { attachedPipe } from "./attached-pipe.ts";

const STDOUT = 1;
const STDERR = 2;

function part(stream: number, text: string): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt8(stream);
  head.writeUInt32BE(text.length, 4);
  return Buffer.concat([head, Buffer.from(text)]);
}

describe("an attached container", () => {
  it.each([1, 3, 8, 1000])("is read in parts, whatever comes at a time: %i bytes", async (bytes) => {
    const sent = Buffer.concat([part(STDOUT, "one "), part(STDERR, "oops"), part(STDOUT, ""), part(STDOUT, "two")]);
    const [toUs, fromUs] = [new PassThrough(), new PassThrough()];
    const { pipe, complaint } = attachedPipe(Duplex.from({ readable: toUs, writable: fromUs }));
    for (let at = 0; at < sent.length; at += bytes) toUs.write(sent.subarray(at, at + bytes));
    toUs.end();
    let text = "";
    for await (const data of pipe) text += String(data);
    expect(text).toBe("one two");
    expect(complaint()).toBe("oops");
  });

  it("is written to as it is, and ends with its socket", async () => {
    const [toUs, fromUs] = [new PassThrough(), new PassThrough()];
    const socket = Duplex.from({ readable: toUs, writable: fromUs });
    const { pipe } = attachedPipe(socket);
    pipe.write("in");
    expect(String((await once(fromUs, "data"))[0])).toBe("in");
    pipe.destroy();
    await new Promise((resolve) => socket.once("close", resolve));
    expect(socket.destroyed).toBe(true);
  });
});

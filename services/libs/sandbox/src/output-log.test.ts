// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OutputLog } from "./output-log.ts";

const bytes = (text: string): Buffer => Buffer.from(text);

async function all(log: OutputLog, from = 0): Promise<{ text: string; cut: number }> {
  const read = { text: "", cut: 0 };
  for await (const { data, cutBytes } of log.chunks(from)) {
    read.text += Buffer.from(data).toString();
    read.cut += cutBytes;
  }
  return read;
}

describe("an output log", () => {
  it("keeps the first and the last half, and says what is missing", async () => {
    const log = new OutputLog(8);
    for (const text of ["abc", "def", "ghi", "jkl"]) log.add("stdout", bytes(text));
    log.end();
    expect(log.text("stdout")).toBe("abcd\n… 5 bytes of output left out …\njkl");
    expect(await all(log)).toEqual({ text: "abcdjkl", cut: 5 });
  });

  it("keeps streams apart", () => {
    const log = new OutputLog(100);
    log.add("stdout", bytes("a"));
    log.add("stderr", bytes("b"));
    expect([log.text("stdout"), log.text("stderr")]).toEqual(["a", "b"]);
  });

  it("gives a reader what comes, and one that was cut off the rest", async () => {
    const log = new OutputLog(100);
    const seen: string[] = [];
    const first = log.chunks();
    log.add("stdout", bytes("one"));
    const { value } = await first.next();
    seen.push(String(value?.data));
    await first.return(undefined);
    log.add("stdout", bytes("two"));
    const second = all(log, (value?.sequence ?? 0) + 3);
    setImmediate(() => {
      log.add("stdout", bytes("three"));
      log.end();
    });
    expect([...seen, (await second).text]).toEqual(["one", "twothree"]);
  });

  it("never keeps more than it may, and accounts for every byte, whatever comes", async () => {
    const pieces = fc.array(fc.string({ maxLength: 30 }), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(pieces, fc.integer({ min: 2, max: 64 }), fc.nat(200), async (texts, max, from) => {
        const log = new OutputLog(max);
        const whole = Buffer.concat(texts.map(bytes));
        for (const text of texts) log.add("stdout", bytes(text));
        log.end();
        const first = whole.subarray(0, Math.floor(max / 2));
        expect(log.totalBytes).toBe(whole.length);
        expect(log.totalBytes - log.cutBytes).toBeLessThanOrEqual(max);
        expect(Buffer.from(log.text("stdout")).subarray(0, first.length).toString()).toContain(first.toString());
        const seen: Buffer[] = [];
        let cut = 0;
        for await (const chunk of log.chunks(from)) {
          cut += chunk.cutBytes;
          expect(chunk.data).toEqual(whole.subarray(chunk.sequence, chunk.sequence + chunk.data.length));
          seen.push(Buffer.from(chunk.data));
        }
        expect(cut + Buffer.concat(seen).length).toBe(Math.max(0, whole.length - from));
      }),
    );
  });
});

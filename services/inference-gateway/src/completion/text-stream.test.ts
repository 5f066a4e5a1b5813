// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TextStream } from "./text-stream.ts";

/** Token i is byte i, as in the tiny model. */
const decode = (ids: readonly number[]): string => Buffer.from(ids).toString("utf8");
const bytes = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 80 }).map((text) => [...Buffer.from(text)]),
  fc.array(fc.nat(255), { maxLength: 120 }),
);

describe("TextStream", () => {
  it("hands out pieces that together are the text of all ids", () => {
    fc.assert(
      fc.property(bytes, fc.nat(5), (ids, size) => {
        const stream = new TextStream(decode);
        let text = "";
        for (let i = 0; i < ids.length; i += size + 1) text += stream.push(ids.slice(i, i + size + 1));
        text += stream.end();
        expect(text).toBe(decode(ids));
        expect(stream.text).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  it("keeps text back while its last character is unfinished", () => {
    const stream = new TextStream(decode);
    expect(stream.push([...Buffer.from("aé")].slice(0, 2))).toBe("");
    expect(stream.push([...Buffer.from("é")].slice(1))).toBe("aé");
  });
});

// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { segmentsOf, type Version } from "./changes.ts";
import type { FileEntry, TensorEntry } from "./manifest.ts";

const HEADER = 10;
const file: FileEntry = { name: "model.safetensors", size: 100, sha256: "" };

/** Two tensors behind a header of 10 bytes, in blocks of 10 named by letters: "aaaa" and "bbbbb" have 40 and 50 bytes. */
function version(first: string, second: string, dtype = "F32"): Version {
  const tensor = (name: string, blocks: string, offset: number): TensorEntry => {
    return { name, file: file.name, dtype, offset, size: 10 * blocks.length, sha256: blocks };
  };
  const tensors = [tensor("x", first, HEADER), tensor("y", second, HEADER + 10 * first.length)];
  const blocks = { bytes: 10, tensors: { x: first.split(""), y: second.split("") } };
  return { manifest: { format: "whetstone.weights/v1", files: [file], tensors }, blocks };
}

function planned(published: Version, own: Version): string[] | undefined {
  return segmentsOf(file, published, own)?.map(({ from, begin, end }) => `${from} ${begin}-${end}`);
}

describe("what has to be fetched of a file", () => {
  it("is its header, and the blocks that differ, neighbours at a time", () => {
    const own = version("aaaa", "bbbbb");
    expect(planned(version("aaaa", "bbbbb"), own)).toEqual(["published 0-10", "own 10-100"]);
    const plan = ["published 0-10", "own 10-60", "published 60-80", "own 80-100"];
    expect(planned(version("aaaa", "bxxbb"), own)).toEqual(plan);
    expect(planned(version("aaax", "xbbbb"), own)).toEqual([
      "published 0-10",
      "own 10-40",
      "published 40-60",
      "own 60-100",
    ]);
  });

  it("is all of it where more than half is new, or another type or length", () => {
    const own = version("aaaa", "bbbbb");
    expect(planned(version("cccc", "ddbbb"), own)).toBeUndefined();
    expect(planned(version("aaaa", "bbbbb", "BF16"), own)).toBeUndefined();
    expect(planned(version("aaaa", "bbbbb"), version("aaa", "bbbb"))).toBeUndefined();
  });

  it("takes a tensor that did not change from wherever it was", () => {
    const [published, own] = [version("aaaa", "bbbbb"), version("aaaa", "bbbbb")];
    const tensors = own.manifest.tensors.map((tensor) => ({ ...tensor, file: "other", offset: tensor.offset + 7 }));
    const segments = segmentsOf(file, published, { ...own, manifest: { ...own.manifest, tensors } });
    expect(segments?.[1]).toEqual({ from: "own", file: "other", begin: 17, end: 107 });
  });
});

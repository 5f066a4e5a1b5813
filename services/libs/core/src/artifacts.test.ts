// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { artifactDigest, artifactFileFault, artifactText, mapArtifacts, parseArtifact } from "./artifacts.ts";

const DIGEST = "ab".repeat(32);

describe("a reference to an artifact", () => {
  it.each([
    ["artifact://models/tiny", { kind: "models", name: "tiny" }],
    [`artifact://models/tiny@sha256:${DIGEST}`, { kind: "models", name: "tiny", digest: DIGEST }],
    ["artifact://datasets/sums/train.jsonl", { kind: "datasets", name: "sums", file: "train.jsonl" }],
    [`artifact://tasks/w.1@sha256:${DIGEST}/a/b`, { kind: "tasks", name: "w.1", digest: DIGEST, file: "a/b" }],
  ])("%s is read and written", (text, reference) => {
    expect(parseArtifact(text)).toEqual(reference);
    expect(artifactText(parseArtifact(text))).toBe(text);
  });

  it.each([
    "artifact://",
    "artifact://models",
    "artifact://files/x",
    "artifact://models/../x",
    "artifact://models/.x",
    "artifact://models/x@sha256:abc",
    "artifact://tasks/x/../../etc/passwd",
    "artifact://tasks/x//etc",
  ])("%s is refused", (text) => {
    expect(() => parseArtifact(text)).toThrow(text);
  });

  it.each(["/etc/passwd", "..", "a/../b", "./a", "a//b", "a/", "", "a\\b", "a\0b", "a\nb", "ä".repeat(300)])(
    "a file %j would leave its folder, or trouble a file system",
    (path) => {
      expect(artifactFileFault(path)).toContain("must be relative");
    },
  );

  it("has a digest that follows from the files, not from their order", () => {
    const files = [
      { path: "b", size: 2, sha256: DIGEST },
      { path: "a", size: 1n, sha256: DIGEST },
    ];
    expect(artifactDigest(files)).toBe(artifactDigest(files.toReversed()));
    expect(artifactDigest(files)).not.toBe(artifactDigest([{ ...files[0], path: "c" }, files[1]] as typeof files));
  });

  it("is found anywhere in a value, with its path", () => {
    const paths: string[] = [];
    const value = { model: { path: "artifact://models/m" }, args: { list: [1, "artifact://tasks/t"], text: "x" } };
    const mapped = mapArtifacts(value, (text, path) => (paths.push(path), text.toUpperCase()));
    expect(paths).toEqual(["model.path", "args.list[1]"]);
    expect(mapped.args).toEqual({ list: [1, "ARTIFACT://TASKS/T"], text: "x" });
  });
});

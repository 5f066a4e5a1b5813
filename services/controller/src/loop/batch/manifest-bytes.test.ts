// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { runAtOnce } from "@whetstone/core";
import { BatchManifestSchema } from "@whetstone/proto/events/v1/events";
import { describe, expect, it } from "vitest";
import { countManifest, decodeManifest, encodeManifest } from "./manifest-bytes.ts";

function manifestOf(trained: number, dropped: number) {
  const entries = Array.from({ length: trained }, (_, i) => ({
    ...{ episodeId: `j/g${i}/s0`, group: `g${i}`, sequence: BigInt(i), digest: "ab".repeat(32), reward: i / 7 },
    ...(i % 2 === 0 && { minPolicyVersion: BigInt(i), maxPolicyVersion: 3n }),
  }));
  const voided = Array.from({ length: dropped }, (_, i) => ({ episodeId: `j/g${i}/s1`, failureClass: 3, reason: "R" }));
  const baselines = entries.map(({ group, sequence, digest, reward }) => ({
    ...{ episodeId: `j/${group.replace("g", "b")}/s0`, group, sequence, digest, reward },
  }));
  const more = { job: "j", step: 7, epoch: 2n, maxPolicyLag: 1, createdAt: timestampNow() };
  return create(BatchManifestSchema, { ...more, entries, voided, baselines });
}

const stepsOf = (work: Generator<void, unknown>): number => work.reduce((count) => count + 1, 0);

describe("a manifest's bytes, made and read in steps", () => {
  it.each([
    [0, 0],
    [1, 0],
    [0, 61],
    [60, 3],
    [64, 64],
    [700, 300],
  ])("are the message's own: %i trained, %i voided", (trained, voided) => {
    const manifest = manifestOf(trained, voided);
    const bytes = runAtOnce(encodeManifest(manifest));
    expect(Buffer.from(bytes).equals(Buffer.from(toBinary(BatchManifestSchema, manifest)))).toBe(true);
    expect(runAtOnce(decodeManifest(bytes))).toEqual(fromBinary(BatchManifestSchema, bytes));
    expect(runAtOnce(countManifest(bytes))).toEqual({ entries: trained, voided, baselines: trained });
  });

  it("with a step for each entry", () => {
    const manifest = manifestOf(700, 300);
    const bytes = runAtOnce(encodeManifest(manifest));
    for (const work of [encodeManifest(manifest), decodeManifest(bytes), countManifest(bytes)])
      expect(stepsOf(work)).toBeGreaterThanOrEqual(1_000);
  });
});

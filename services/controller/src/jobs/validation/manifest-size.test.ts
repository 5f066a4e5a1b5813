// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { BatchManifestSchema } from "@whetstone/proto/events/v1/events";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import type { GroupRule } from "../compiled-job.ts";
import { checkManifestSize, largestManifest, MAX_MANIFEST_BYTES } from "./manifest-size.ts";
import { Findings } from "./violation.ts";

const complete: GroupRule = { kind: "complete" };
const sizes = { batchGroups: 4096, groupSize: 8, hasBaselines: false, maxReplacements: 0 };
const batch = (name: string, groupRule: GroupRule) => ({ name, ...sizes, groupRule });

function violations(name: string, groupRule: GroupRule): string[] {
  const found = new Findings([]);
  checkManifestSize(found, batch(name, groupRule));
  return found.violations.map(({ path }) => path);
}

describe("checkManifestSize", () => {
  it("accepts 4,096 groups of 8 under any name, and with completed groups under one of up to 40 characters", () => {
    expect(violations("n".repeat(52), { kind: "drop" })).toEqual([]);
    expect(violations("n".repeat(40), complete)).toEqual([]);
    expect(violations("n".repeat(52), complete)).toEqual(["loop.batchGroups"]);
  });

  it("counts no less than the manifest of a job's last step has, half of its episodes voided", () => {
    const name = "n".repeat(40);
    const members = Array.from({ length: 4096 * 8 }, (_, i) => i);
    const idOf = (sample: number): string => `${name}/g32767999999/s${sample}`;
    const facts = { sequence: 2_000_000_000n, digest: "a".repeat(64), reward: -1 / 3 };
    const versions = { minPolicyVersion: 999_999n, maxPolicyVersion: 999_999n };
    const manifest = create(BatchManifestSchema, {
      ...{ job: name, step: 999_999, epoch: 100_000n, maxPolicyLag: 8, createdAt: timestampNow() },
      entries: members.map(() => ({ episodeId: idOf(15), group: "g32767999999", ...facts, ...versions })),
      voided: members.map(() => ({ episodeId: idOf(15), failureClass: FailureClass.TASK, reason: "RetriesExhausted" })),
    });
    const { length } = toBinary(BatchManifestSchema, manifest);
    expect(length).toBeLessThanOrEqual(largestManifest(batch(name, complete)));
    expect(length).toBeGreaterThan(0.9 * MAX_MANIFEST_BYTES);
  });
});

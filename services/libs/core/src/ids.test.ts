// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { episodeId, groupName, jobId, parseEpisodeId, policyLabel, trainGroup } from "./index.ts";

const jobNames = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/);
const groups = fc.oneof(fc.nat().map(trainGroup), fc.stringMatching(/^[A-Za-z0-9][-_A-Za-z0-9]{0,20}$/));

describe("ids", () => {
  it("round-trips every episode id", () => {
    fc.assert(
      fc.property(jobNames, groups, fc.nat({ max: 99_999 }), (job, group, sample) => {
        const parts = parseEpisodeId(episodeId(job, group, sample));
        expect(parts).toEqual({ job, group: groupName(group), sample });
      }),
    );
  });

  it("writes the pinned form", () => {
    expect(episodeId("fl-1", trainGroup(12), 3)).toBe("fl-1/g12/s3");
    expect(parseEpisodeId("fl-1/v20-greedy-7/s0")).toEqual({ job: "fl-1", group: "v20-greedy-7", sample: 0 });
  });

  it.each(["", "Fl", "-a", "a-", "a_b", "a.b", "a".repeat(53), "a/b"])("refuses the job name %j", (name) => {
    expect(() => jobId(name)).toThrow(/job name/);
  });

  it.each(["a/g1", "a/g1/3", "a/g1/s-1", "a/g1/s01", "a/g.1/s1", "a/g1/s1/x", "a/ g/s1", "a/g>/s1"])(
    "refuses the episode id %j",
    (id) => {
      expect(() => parseEpisodeId(id)).toThrow();
    },
  );

  it("labels a policy's version", () => {
    expect([policyLabel("fl-1", 7n), policyLabel("fl-1", 0)]).toEqual(["fl-1:7", "fl-1:0"]);
  });
});

// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { ModelCallSchema } from "@whetstone/proto/types/v1/types";
import { EpisodeSchema, FailureClass, Purpose } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { summarize } from "./summary.ts";

type CallInit = Exclude<MessageInitShape<typeof ModelCallSchema>, { $typeName: string }>;

function summaryOf(calls: CallInit[], purpose = Purpose.TRAIN) {
  const failure = { failureClass: FailureClass.NONE, message: "m".repeat(300) };
  return summarize(create(EpisodeSchema, { id: "j/g0/s0", purpose, calls, failure }), "d");
}

function span(start: number, end: number, version: number) {
  return { start, end, policyVersion: BigInt(version) };
}

describe("summaries", () => {
  it("name the oldest and newest version of any sampled token", () => {
    const calls = [
      { id: "c0", completionIds: [1, 2], versionSpans: [span(0, 1, 7), span(1, 2, 9)] },
      { id: "c1", completionIds: [1], versionSpans: [span(0, 0, 1), span(0, 1, 8)] },
    ];
    expect(summaryOf(calls)).toMatchObject({ minPolicyVersion: 7n, maxPolicyVersion: 9n, sampledTokens: 3 });
  });

  it("have no versions when nothing was sampled", () => {
    expect(summaryOf([]).minPolicyVersion).toBeUndefined();
  });

  it.each([
    ["none", [], 4],
    ["a gap", [span(0, 1, 1), span(2, 4, 1)], 1],
    ["too few", [span(0, 3, 1)], 1],
    ["all", [span(0, 2, 1), span(2, 4, 2)], 0],
    ["overlapping", [span(0, 3, 1), span(1, 3, 2)], 3],
    ["beyond the end", [span(2, 9, 1)], 2],
  ])("count unlabelled tokens: %s", (_name, versionSpans, unlabelledTokens) => {
    const calls = [{ id: "c0", completionIds: [1, 2, 3, 4], versionSpans }];
    expect(summaryOf(calls).unlabelledTokens).toBe(unlabelledTokens);
  });

  it("count whole prompts, though calls hold only what they add", () => {
    const calls = [
      { id: "c0", promptIds: [1, 2, 3], completionIds: [4, 5] },
      { id: "c1", parentId: "c0", promptIds: [6], completionIds: [7] },
      { id: "c2", promptIds: [1, 2], completionIds: [4] },
    ];
    expect(summaryOf(calls).promptTokens).toBe(3 + 6 + 2);
  });

  it("count a demonstration's trained tokens, and none as sampled", () => {
    const calls = [
      { id: "c0", completionIds: [1, 2, 3], demonstrationMask: [0, 1, 1] },
      { id: "c1", completionIds: [1, 2] },
    ];
    const summary = summaryOf(calls, Purpose.DEMONSTRATION);
    expect(summary).toMatchObject({ demonstrationTokens: 4, sampledTokens: 0, unlabelledTokens: 0 });
  });

  it("cut long messages", () => {
    expect(summaryOf([]).failureMessage).toHaveLength(200);
  });

  it("say which task it was, and where it failed", () => {
    const task = { id: "t-7", source: "sums" };
    const failure = { failureClass: FailureClass.ENVIRONMENT, phase: "step", message: "gone" };
    const summary = summarize(create(EpisodeSchema, { id: "j/g0/s0", task, failure }), "d");
    expect(summary).toMatchObject({ taskId: "t-7", taskSource: "sums", failurePhase: "step" });
    expect(summaryOf([])).toMatchObject({ taskId: "", taskSource: "", failurePhase: "" });
  });
});

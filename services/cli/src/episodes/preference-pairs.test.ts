// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { EpisodeSchema, EpisodeSummarySchema, FailureClass, Purpose } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { GroupExtremes, pairTask } from "./preference-pairs.ts";

const summary = (id: string, reward: number, more: object = {}) =>
  create(EpisodeSummarySchema, {
    ...{ episodeId: `j/${id}`, reward, sampledTokens: 3, purpose: Purpose.TRAIN, failureClass: FailureClass.NONE },
    ...more,
  });

describe("preferences out of a job's episodes", () => {
  it("are the best and the worst of each group whose rewards differ", () => {
    const groups = new GroupExtremes();
    for (const [id, reward] of [
      ["g0/s0", 0.5],
      ["g0/s1", 0],
      ["g0/s2", 1],
      ["g1/s0", 1],
      ["g1/s1", 1],
    ] as const)
      groups.add(summary(id, reward));
    groups.add(summary("g0/s3", -1, { failureClass: FailureClass.ENVIRONMENT }));
    groups.add(summary("v0-greedy-1/s0", 1, { purpose: Purpose.VALIDATION }));
    expect(groups.pairs()).toEqual([{ best: "j/g0/s2", worst: "j/g0/s1" }]);
    expect(groups.count).toBe(2);
  });

  const episode = (promptIds: number[], more: object = {}) =>
    create(EpisodeSchema, {
      ...{ id: "j/g0/s0", job: "j", group: "g0", task: { id: "t", payload: { seed: 1 }, source: "s" } },
      trajectories: [{ role: "agent", steps: [{ callId: "c0" }, { callId: "c2" }] }],
      calls: [
        { id: "c0", promptIds, completionIds: [5, 6] },
        { id: "c1", promptIds: [3], completionIds: [4], role: "helper" },
        { id: "c2", parentId: "c0", promptIds: [8], completionIds: [9] },
      ],
      ...more,
    });

  it("hold the tokens as they were sampled; what no step names is context", () => {
    const task = pairTask(episode([1, 2]), episode([1, 2]));
    expect(task).toMatchObject({ id: "j-g0", payload: { seed: 1 }, source: "s" });
    expect(task?.chosenCalls?.map(({ id, demonstrationMask }) => [id, demonstrationMask])).toEqual([
      ["c0", [1, 1]],
      ["c1", [0]],
      ["c2", [1]],
    ]);
    expect(task?.rejectedCalls?.[2]).toMatchObject({ parentId: "c0", promptIds: [8], completionIds: [9] });
  });

  it("are none where the prompts differ, or several roles played", () => {
    expect(pairTask(episode([1, 2]), episode([1, 3]))).toBeUndefined();
    const several = episode([1, 2], { trajectories: [{ role: "a" }, { role: "b" }] });
    expect(pairTask(several, episode([1, 2]))).toBeUndefined();
  });
});

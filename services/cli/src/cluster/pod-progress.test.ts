// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";

import { podView } from "./pod-progress.ts";

const pod = (status: object) => podView({ metadata: { name: "x" }, status });
const waiting = (reason: string, message = "why") => ({
  containerStatuses: [{ restartCount: 2, state: { waiting: { reason, message } } }],
});
const ended = (restartCount: number, reason: string) => ({
  containerStatuses: [{ name: "engine", restartCount, state: {}, lastState: { terminated: { reason, exitCode: 1 } } }],
});

describe("podView", () => {
  it("tells ready, starting and stuck apart", () => {
    expect(pod({ conditions: [{ type: "Ready", status: "True" }] })).toMatchObject({ ready: true, doing: "ready" });
    expect(pod({})).toEqual({ name: "x", ready: false, doing: "starting", restarts: 0 });
    expect(pod(waiting("ContainerCreating"))).toMatchObject({ doing: "starting", restarts: 2 });
  });

  it("says nothing of a container that had to start twice", () => {
    expect(pod(ended(1, "Error"))).not.toHaveProperty("advice");
  });

  it.each([
    ["ImagePullBackOff", waiting("ImagePullBackOff"), /why.*images\.registry/],
    ["CrashLoopBackOff", waiting("CrashLoopBackOff"), /why.*kubectl logs/],
    [
      "Unschedulable",
      { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "no GPU" }] },
      /no node takes it: no GPU/,
    ],
    ["starting", ended(3, "Error"), /engine has ended 3 times \(Error, exit code 1\).*logs --previous/],
    ["starting", ended(2, "OOMKilled"), /memory limit/],
  ])("says what to do about %s", (doing, status, advice) => {
    expect(pod(status)).toMatchObject({ ready: false, doing, advice: expect.stringMatching(advice) as string });
  });
});

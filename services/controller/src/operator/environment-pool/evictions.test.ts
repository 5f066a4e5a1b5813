// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { RunnerPod } from "./plan.ts";
import { evictionMarks } from "./evictions.ts";

const pod = (uid: string, sessions: number, safeToEvict = true): RunnerPod =>
  ({ uid, name: uid, sessions, safeToEvict }) as RunnerPod;

/** One look after another, a second between two; what is marked shows at the next one. */
function looks(counts: readonly number[], everyMs = 1_000): string[] {
  const idleSince = new Map<string, number>();
  let safe = true;
  return counts.flatMap((sessions, i) => {
    const marks = evictionMarks([pod("a", sessions, safe)], { idleSince, now: i * everyMs });
    for (const mark of marks) safe = mark.safe;
    return marks.map((mark) => `${i}:${mark.safe}`);
  });
}

describe("evictionMarks", () => {
  it("marks a pod as soon as something is open there", () => {
    expect(looks([0, 3, 2, 5])).toEqual(["1:false"]);
  });

  it("lets it go a minute after the last session, not between two steps", () => {
    const busyThenIdle = [1, ...Array<number>(100).fill(0)];
    expect(looks(busyThenIdle)).toEqual(["0:false", "61:true"]);
    const training = Array.from({ length: 200 }, (_, i) => (i % 50 < 5 ? 8 : 0));
    expect(looks(training)).toEqual(["0:false"]);
  });

  it("leaves idle pods alone, and those of a controller that has just begun for a minute", () => {
    expect(looks(Array<number>(200).fill(0))).toEqual([]);
    const idleSince = new Map<string, number>();
    const at = (now: number) => evictionMarks([pod("a", 0, false)], { idleSince, now }).length;
    expect([at(0), at(59_999), at(60_000)]).toEqual([0, 0, 1]);
  });

  it("marks some at a time, the busy ones first, and forgets pods that are gone", () => {
    const idleSince = new Map([["gone", 0]]);
    const many = [
      ...Array.from({ length: 50 }, (_, i) => pod(`idle-${i}`, 0, false)),
      ...Array.from({ length: 30 }, (_, i) => pod(`busy-${i}`, 1)),
    ];
    evictionMarks(many, { idleSince, now: 0 });
    const marks = evictionMarks(many, { idleSince, now: 60_000 });
    expect(marks.length).toBe(40);
    expect(marks.slice(0, 30).every(({ safe }) => !safe)).toBe(true);
    expect(idleSince.has("gone")).toBe(false);
  });
});

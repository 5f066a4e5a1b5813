// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";

import { compareReports } from "./compare.ts";
import { type EvaluatedEpisode, type EvaluationHead, evaluationReport, readReport } from "./report.ts";

const HEAD: EvaluationHead = {
  name: "e1",
  model: "/m",
  agent: "math",
  environment: "math",
  dataset: "sums",
  attempts: 2,
  seed: 0,
  sampling: { temperature: 1 },
  finishedAt: "2026-01-01T00:00:00.000Z",
  seconds: 3,
};

/** "a ✓✗ a" is task a with a correct, a wrong and a voided episode; "d" ran into its deadline, which is scored. */
function episodes(...texts: string[]): EvaluatedEpisode[] {
  return texts.flatMap((text) => {
    const [taskId = "", marks = ""] = text.split(" ");
    return [...marks].map((mark, sample) => ({
      ...{ id: `e1/v0-eval-${taskId}/s${sample}`, taskId, source: taskId < "m" ? "early" : "late" },
      ...{
        isScored: mark !== "x",
        isCorrect: mark === "+",
        reward: mark === "+" ? 1 : 0,
        steps: 2,
        tokens: 5,
        seconds: 1,
      },
      endedBy: mark === "x" ? "ERROR" : mark === "d" ? "DEADLINE" : "ENV_DONE",
      failureClass: mark === "x" ? "ENVIRONMENT" : mark === "d" ? "DEADLINE" : "NONE",
      failurePhase: mark === "x" ? "step" : mark === "d" ? "model" : "",
      failureMessage: mark === "x" ? "boom" : "",
    }));
  });
}

it("a report counts per source, voids what failed, and names the failures", () => {
  const report = evaluationReport(HEAD, [1, 2], episodes("z +-", "a ++", "b +x", "c xx", "d -d"));
  expect(report.total).toMatchObject({ tasks: 4, tasksInAll: 5, episodes: 7, voided: 3, success: { value: 4 / 7 } });
  expect(report.total.passAtK).toMatchObject([
    { k: 1, tasks: 4, value: (0.5 + 1 + 1 + 0) / 4 },
    { k: 2, tasks: 3, value: 2 / 3 },
  ]);
  expect(report.sources.map(({ source, tasksInAll, voided }) => [source, tasksInAll, voided])).toEqual([
    ["early", 4, 3],
    ["late", 1, 0],
  ]);
  expect(report.failures).toEqual([
    { failureClass: "ENVIRONMENT", phase: "step", episodes: 3, isScored: false, example: "boom" },
    { failureClass: "DEADLINE", phase: "model", episodes: 1, isScored: true, example: "" },
  ]);
  expect(report.endings).toEqual({ ENV_DONE: 6, ERROR: 3, DEADLINE: 1 });
  expect(report.tasks.map(({ id }) => id)).toEqual(["z", "a", "b", "c", "d"]);
  expect(report.tasks[3]).toMatchObject({ episodes: 0, correct: 0, voided: 2, meanReward: null });
  expect(readReport(JSON.parse(JSON.stringify(report)), "r.json")).toEqual(report);
});

it("what is no report is refused by its place", () => {
  expect(() => readReport({ format: "x" }, "r.json")).toThrow(/r\.json.*no report.*format/s);
  const broken = { format: "whetstone.evaluation/v1", name: "e", tasks: [{ id: 3 }] };
  expect(() => readReport(broken, "r.json")).toThrow(/tasks\.0\.id/);
});

it("two reports are compared task by task, over the tasks that both scored", () => {
  const before = evaluationReport(HEAD, [1, 2], episodes("a ++", "b --", "c xx", "n +-", "z --"));
  const after = evaluationReport({ ...HEAD, name: "e2" }, [1, 4], episodes("a +-", "b ++", "c ++", "n -+", "q ++"));
  const compared = compareReports(before, after);
  expect(compared).toMatchObject({ before: "e1", after: "e2", onlyBefore: ["z"], onlyAfter: ["c", "q"] });
  expect(compared.changed.map(({ id, difference }) => [id, difference])).toEqual([
    ["b", 1],
    ["a", -0.5],
  ]);
  const { success, ...counts } = compared.total;
  expect(counts).toMatchObject({ tasks: 3, before: 0.5, after: 2 / 3, better: 1, worse: 1, same: 1 });
  expect(success.value).toBeCloseTo(1 / 6);
  // By hand: mean 1/6, sd of (−0.5, 1, 0) is 0.7638, t(2) = 4.3027.
  expect(success.low).toBeCloseTo(1 / 6 - (4.3027 * 0.76376) / Math.sqrt(3), 3);
  expect(compared.total.passAtK.map(({ k }) => k)).toEqual([1]);
  expect(compared.sources.map(({ source, tasks }) => [source, tasks])).toEqual([
    ["early", 2],
    ["late", 1],
  ]);
});

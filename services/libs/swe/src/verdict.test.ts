// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { type TestResult, verdictOf } from "./verdict.ts";

const failToPass = ["a", "b"];
const stable = ["a", "b", "c", "d"];
const run = (results: Record<string, TestResult>, more = {}) => ({ results, finished: true, tampering: [], ...more });
const all = { a: "passed", b: "passed", c: "passed", d: "passed" } as const;

it.each([
  ["all pass", run(all), { resolved: true, failToPass: 1, passToPass: 1, dense: 1 }],
  ["one is left broken", run({ ...all, b: "failed" }), { resolved: false, failToPass: 0.5, passToPass: 1, dense: 0.5 }],
  ["another one broke", run({ ...all, d: "failed" }), { resolved: false, failToPass: 1, passToPass: 0.5, dense: 0.5 }],
  ["one is skipped", run({ ...all, a: "skipped" }), { resolved: false, failToPass: 0.5 }],
  ["one is missing", run({ a: "passed", b: "passed", c: "passed" }), { resolved: false, passToPass: 0.5 }],
  ["nothing was heard", run({}), { resolved: false, dense: 0 }],
  ["it was cut short", run(all, { finished: false }), { resolved: false, dense: 0 }],
  ["it was tampered with", run(all, { tampering: ["x.py: import gc"] }), { resolved: false, dense: 0 }],
])("%s", (_name, outcome, verdict) => {
  expect(verdictOf(outcome, failToPass, stable)).toMatchObject(verdict);
});

// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { readE2e, readPytest, readVitest } from "./test-reports.ts";

it("reads pytest's report: what failed, what could not be set up, and nothing of what was skipped", () => {
  const cases = [
    `<testcase classname="test_x" name="test_ok" time="0.001" />`,
    `<testcase classname="test_x" name="test_bad" time="0.001"><properties><property name="a" value="b" /></properties>`,
    `<failure message="AssertionError: a &amp; b&#10;assert 'a' == 'b&quot;'">def test_bad(): &lt;…&gt;</failure></testcase>`,
    `<testcase classname="test_x" name="test_err" time="0.001"><error message="failed on setup with &lt;x&gt;">…</error></testcase>`,
    `<testcase classname="test_x" name="test_skip" time="0"><skipped type="pytest.skip" message="no GPU">…</skipped></testcase>`,
  ];
  const suite = `<testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4" time="0.063">`;
  const xml = `<testsuites name="pytest tests">${suite}${cases.join("")}</testsuite></testsuites>`;
  expect(readPytest(xml)).toEqual({
    passed: 1,
    failures: [
      `test_x: test_bad\n    AssertionError: a & b\n    assert 'a' == 'b"'`,
      "test_x: test_err\n    failed on setup with <x>",
    ],
  });
});

it("reads vitest's report: tests that failed, and files that could not be loaded", () => {
  const failed = { fullName: "audit counts", status: "failed", failureMessages: ["expected 1 to be 2"] };
  const passed = { fullName: "audit reads", status: "passed", failureMessages: [] };
  const report = {
    numPassedTests: 1,
    testResults: [
      { name: "a.test.ts", status: "failed", message: "", assertionResults: [passed, failed] },
      { name: "b.test.ts", status: "failed", message: "Cannot find module", assertionResults: [] },
    ],
  };
  const failures = ["a.test.ts: audit counts\n    expected 1 to be 2", "b.test.ts\n    Cannot find module"];
  expect(readVitest(JSON.stringify(report))).toEqual({ passed: 1, failures });
});

it("reads the phases of the end-to-end test, and cuts a long reason short", () => {
  const phases = [
    { name: "install", said: "", outcome: "passed" },
    { name: "train", said: "x".repeat(9_000), outcome: "failed" },
    { name: "drain", said: "SKIPPED", outcome: "skipped" },
  ];
  expect(readE2e(JSON.stringify({ phases }))).toEqual({ passed: 1, failures: [`train\n    ${"x".repeat(500)}`] });
});

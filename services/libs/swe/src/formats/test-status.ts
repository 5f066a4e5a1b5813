// SPDX-License-Identifier: Apache-2.0

/** SWE-bench's words for what became of a test. */
export const TEST_STATUSES = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"] as const;
export type TestStatus = (typeof TEST_STATUSES)[number];

/** By the test's name as it stands in the log. Where a test is named twice, the later line counts. */
export type StatusMap = ReadonlyMap<string, TestStatus>;

/** Reads a log of one kind of test runner. It takes any text and never throws: code under test may have printed it. */
export type LogParser = (log: string) => StatusMap;

export function isTestStatus(word: string | undefined): word is TestStatus {
  return (TEST_STATUSES as readonly (string | undefined)[]).includes(word);
}

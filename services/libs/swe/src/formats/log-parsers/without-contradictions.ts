// SPDX-License-Identifier: Apache-2.0
import type { LogParser, TestStatus } from "../test-status.ts";

const PASSES: ReadonlySet<TestStatus> = new Set(["PASSED", "XFAIL", "SKIPPED"]);

/**
 * A test that the log names as failed and later as passed has failed: the later line may have been printed by the code under
 * test. Read backwards, a parser finds the first word on each test where it otherwise finds the last.
 */
export function withoutContradictions(parser: LogParser): LogParser {
  return (log) => {
    const last = parser(log);
    const first = parser(log.split("\n").reverse().join("\n"));
    const disputed = [...first].filter(([name, status]) => !PASSES.has(status) && PASSES.has(last.get(name) ?? status));
    return new Map([...last, ...disputed]);
  };
}

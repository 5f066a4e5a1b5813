// SPDX-License-Identifier: Apache-2.0
import { strip, words } from "../python-text.ts";
import type { LogParser, TestStatus } from "../test-status.ts";

const ENDS = { " E": "ERROR", " F": "FAILED", " ok": "PASSED" } as const;

/** sympy's own runner: "test_a ok", and above a trace "____ sympy/core/tests/test_b.py:test_a ____". */
export const parseSympy: LogParser = (log) => {
  const statuses = new Map<string, TestStatus>();
  const lines = log.split("\n");
  for (const line of lines) {
    const heading = headingOf(line);
    if (heading !== undefined) statuses.set(heading, "FAILED");
  }
  for (const line of lines.map(strip)) {
    if (!line.startsWith("test_")) continue;
    for (const [end, status] of Object.entries(ENDS))
      if (line.endsWith(end)) statuses.set(words(line)[0] ?? "", status);
  }
  return statuses;
};

/** Between the first space and the last, where ".py:" is. By hand: as a pattern it is tried from every space to every other. */
function headingOf(line: string): string | undefined {
  const first = line.indexOf(" ");
  const last = line.lastIndexOf(" ");
  const at = line.lastIndexOf(".py:", last - 4);
  return first >= 0 && at > first ? line.slice(first + 1, last) : undefined;
}

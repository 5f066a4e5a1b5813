// SPDX-License-Identifier: Apache-2.0
import { before } from "./python-text.ts";
import type { TestStatus } from "./test-status.ts";

// R2E-Gym's rule (69bc953): every test has the status that is expected, and there is no other test.

const COLOURS = /\x1b\[[0-9;]*m|\r/gu;
const COLOUR = /\x1b\[\d+m/gu;
const SUMMARY = "short test summary info";

/** Of pytest's summary, "PASSED r2e_tests/test_1.py::Class::test_a", by "Class.test_a". */
export function parseR2eLog(log: string): Map<string, TestStatus> {
  const statuses = new Map<string, TestStatus>();
  const summary = log.replace(COLOURS, "").split(SUMMARY)[1] ?? "";
  for (const line of summary.trim().split("\n")) {
    const name = line.split("::").slice(1).join(".");
    if (line.includes("PASSED")) statuses.set(name, "PASSED");
    else if (line.includes("FAILED")) statuses.set(before(name, " - "), "FAILED");
    else if (line.includes("ERROR")) statuses.set(before(name, " - "), "ERROR");
  }
  return statuses;
}

/** pytest writes one. The first counts, so that another has to be code under test speaking in its place. */
export function summariesIn(log: string): number {
  return log.replace(COLOURS, "").split(SUMMARY).length - 1;
}

export interface R2eReport {
  readonly resolved: boolean;
  /** Tests that have another status than is expected, are missing, or are too many. */
  readonly different: readonly string[];
  readonly expected: number;
}

export function r2eReportOf(found: ReadonlyMap<string, string>, expected: ReadonlyMap<string, string>): R2eReport {
  const [has, wants] = [byPlainName(found), byPlainName(expected)];
  const names = new Set([...has.keys(), ...wants.keys()]);
  const different = [...names].filter((name) => has.get(name) !== wants.get(name));
  return { resolved: different.length === 0, different, expected: wants.size };
}

/** Names without colours and messages. Where two become one, the later in the order of the names counts, as in R2E-Gym. */
function byPlainName(statuses: ReadonlyMap<string, string>): Map<string, string> {
  const decoloured = new Map([...statuses].map(([name, status]) => [name.replace(COLOUR, ""), status] as const));
  const sorted = [...decoloured].sort(([one], [other]) => (one < other ? -1 : 1));
  return new Map(sorted.map(([name, status]) => [before(name, " - "), status]));
}

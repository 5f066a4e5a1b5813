// SPDX-License-Identifier: Apache-2.0
import { strip } from "../python-text.ts";
import type { LogParser, TestStatus } from "../test-status.ts";

const RESULTS = { SUCCESS: "PASSED", FAILURE: "FAILED", PASSED: "PASSED", FAILED: "FAILED" } as const;
const MAX_LINE = 2000;

/** Maven names no test that passes: each has a command of its own, and the builds' results come in their order. */
export const parseMaven: LogParser = (log) => {
  const names: string[] = [];
  const results: TestStatus[] = [];
  const early: TestStatus[] = [];
  for (const line of linesOf(log)) {
    const name = /^.*-Dtest=(\S+)/su.exec(line)?.[1];
    if (name !== undefined) names.push(name);
    const result = /BUILD (SUCCESS|FAILURE)$/su.exec(line)?.[1];
    if (result === undefined) continue;
    const waits = names.length > results.length;
    (waits ? results : early).push(RESULTS[result as keyof typeof RESULTS]);
  }
  const all = [...results, ...early];
  return new Map(names.slice(0, all.length).map((name, i) => [name, all[i] as TestStatus]));
};

/** "com.example.Test > test PASSED"; what other processes print may come between a name and its result. */
export const parseGradle: LogParser = (log) => {
  const statuses = new Map<string, TestStatus>();
  let pending: string | undefined;
  for (const line of linesOf(log)) {
    const [, name, status] = /^([^>].+)\s+(PASSED|FAILED)$/su.exec(line) ?? [];
    const alone = /^([^>]\S*\s+>\s+\S+)$/su.exec(line)?.[1];
    if (name !== undefined) {
      statuses.set(name, status as TestStatus);
      pending = undefined;
    } else if (alone !== undefined) pending = alone;
    else if (pending !== undefined && (line === "PASSED" || line === "FAILED")) {
      statuses.set(pending, line);
      pending = undefined;
    }
  }
  return statuses;
};

function linesOf(log: string): string[] {
  return log
    .split("\n")
    .map(strip)
    .filter(({ length }) => length <= MAX_LINE);
}

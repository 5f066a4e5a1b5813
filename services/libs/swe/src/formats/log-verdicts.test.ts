// SPDX-License-Identifier: Apache-2.0
// What logs mean, compared with SWE-bench's and R2E-Gym's own code: test-support/formats/record_log_verdicts.py asked it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { infraFailureOf } from "./infra-failure.ts";
import { LOG_PARSERS } from "./log-parsers/registry.ts";
import { parseR2eLog, r2eReportOf } from "./r2e-gym-verdict.ts";
import { type EvalType, readHarnessLog, reportOf, statusesOf } from "./swe-bench-verdict.ts";
import type { LogParser } from "./test-status.ts";

interface Recorded {
  readonly versions: Readonly<Record<string, string>>;
  readonly parsers: readonly { parser: string; source: string; log: string; statuses: Record<string, string> }[];
  readonly gradings: readonly {
    parser: string;
    log: string;
    evalType: EvalType;
    failToPass: string[];
    passToPass: string[];
    found: boolean;
    failed: string[];
    resolution: string | null;
  }[];
  readonly infra: readonly { log: string; class: [string, string] | null }[];
  readonly r2e: readonly { log: string; expected: Record<string, string>; reward: number }[];
}

const file = join(import.meta.dirname, "../../test-support/formats/log-verdicts.json");
const recorded = JSON.parse(readFileSync(file, "utf8")) as Recorded;
const parserOf = (name: string): LogParser => LOG_PARSERS.get(name) as LogParser;

describe(`verdicts as of swebench ${recorded.versions["swebench"]}`, () => {
  it("has recorded logs of every parser, real ones and SWE-bench's own cases among them", () => {
    const named = new Set(recorded.parsers.map(({ parser }) => parser));
    expect([...LOG_PARSERS.keys()].filter((name) => !named.has(name))).toEqual([]);
    const sources = new Set(recorded.parsers.map(({ source }) => source));
    expect([...sources]).toEqual(expect.arrayContaining(["their tests", "pytest -rA", "django", "sympy", "mixture"]));
    expect(recorded.parsers.length).toBeGreaterThan(300);
  });

  const judged = recorded.parsers.filter(({ statuses }) => !("__error__" in statuses));
  it.each(judged.map((each, i) => ({ ...each, i })))("$parser reads log $i ($source)", ({ parser, log, statuses }) => {
    expect(Object.fromEntries(parserOf(parser)(log))).toEqual(statuses);
  });

  it("reads what breaks their parsers", () => {
    const broken = recorded.parsers.filter(({ statuses }) => "__error__" in statuses);
    for (const { parser, log } of broken) expect(() => parserOf(parser)(log), log).not.toThrow();
  });

  it.each(recorded.gradings.map((each, i) => ({ ...each, i })))("grades log $i, $evalType", (each) => {
    const log = readHarnessLog(each.log);
    const statuses = log && statusesOf(parserOf(each.parser), log);
    expect(statuses !== undefined).toBe(each.found);
    if (statuses === undefined) return;
    const { resolution, failed } = reportOf(statuses, each);
    expect({ resolution, failed }).toEqual({ resolution: each.resolution, failed: each.failed });
  });

  it("has graded logs of every kind", () => {
    const kinds = new Set(recorded.gradings.map(({ resolution, evalType }) => `${evalType} ${resolution}`));
    for (const type of ["pass_and_fail", "fail_only"])
      for (const resolution of ["RESOLVED_FULL", "RESOLVED_PARTIAL", "RESOLVED_NO", null])
        expect(kinds).toContain(`${type} ${resolution}`);
  });

  it("tells broken environments", () => {
    for (const { log, class: told } of recorded.infra) {
      const found = infraFailureOf(log);
      expect(found === undefined ? null : [found.reason, found.tier], log).toEqual(told);
    }
  });
});

describe(`rewards as of R2E-Gym ${recorded.versions["r2e-gym"]}`, () => {
  it.each(recorded.r2e.map((each, i) => ({ ...each, i })))("log $i pays $reward", ({ log, expected, reward }) => {
    expect(Number(r2eReportOf(parseR2eLog(log), new Map(Object.entries(expected))).resolved)).toBe(reward);
  });

  it("knows both rewards", () => {
    expect(new Set(recorded.r2e.map(({ reward }) => reward))).toEqual(new Set([0, 1]));
  });
});

describe("a log of a hostile change", () => {
  const long = 500_000;
  const lines = [
    "x ... Testing against Django installed in ",
    " a.py: b",
    "= . F",
    "[OK] a (b",
    "a ... Internal Server Error: /",
  ];
  it.each(lines)("takes no time to read, even one of lines %j", (line) => {
    const logs = [line.repeat(long / line.length), `${line}\n`.repeat(long / line.length)];
    const started = performance.now();
    for (const log of logs)
      for (const name of [
        "parse_log_django",
        "parse_log_sympy",
        "parse_log_minitest",
        "parse_log_googletest",
        "parse_log_pytest",
      ])
        parserOf(name)(log);
    expect(performance.now() - started).toBeLessThan(30_000);
  });
});

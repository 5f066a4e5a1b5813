// SPDX-License-Identifier: Apache-2.0
import type { LogParser, StatusMap, TestStatus } from "./test-status.ts";

// The rules of SWE-bench 5.0.2's grading, from a log to a verdict.

export const START_MARKER = ">>>>> Start Test Output";
export const END_MARKER = ">>>>> End Test Output";
const EXIT_CODE = />>>>> Test Exit Code:\s*(-?\d+)/u;

/** "pass_and_fail": what the log does not name has failed. "fail_only": it has passed, for runners that tell failures alone. */
export const EVAL_TYPES = ["pass_and_fail", "fail_only"] as const;
export type EvalType = (typeof EVAL_TYPES)[number];

export const RESOLUTIONS = ["RESOLVED_FULL", "RESOLVED_PARTIAL", "RESOLVED_NO"] as const;
export type Resolution = (typeof RESOLUTIONS)[number];

/** Why a log says nothing of the tests, in SWE-bench's words. */
export const LOG_FAILURES = [
  ">>>>> Patch Apply Failed",
  ">>>>> Reset Failed",
  ">>>>> Tests Errored",
  ">>>>> Tests Timed Out",
] as const;

export interface TestLog {
  /** What the tests printed. */
  readonly output: string;
  /** More, to be read where `output` names no test. */
  readonly whole?: string | undefined;
  /** Of the tests' command. */
  readonly exitCode: number | undefined;
}

/** A log as SWE-bench's harness writes it. Undefined: it says that something went wrong, or has no marks. */
export function readHarnessLog(content: string): TestLog | undefined {
  if (LOG_FAILURES.some((failure) => content.includes(failure))) return undefined;
  if (!content.includes(START_MARKER) || !content.includes(END_MARKER)) return undefined;
  const output = content.split(START_MARKER)[1]?.split(END_MARKER)[0] ?? "";
  const code = EXIT_CODE.exec(content)?.[1];
  return { output, whole: content, exitCode: code === undefined ? undefined : Number(code) };
}

/** Evidence that a runner which tells failures alone has run any test. */
const SUITE_RAN = new RegExp(
  [
    String.raw`Executed [1-9]\d* of \d+`,
    String.raw`TOTAL: [1-9]\d* (?:SUCCESS|FAILED)`,
    String.raw`[1-9]\d* passing`,
    String.raw`Tests:\s+[1-9]\d*`,
    String.raw`Test Suites:\s+(?:\d+ \w+, )*[1-9]\d* total`,
    String.raw`^# tests [1-9]\d*`,
    String.raw`[1-9]\d* specs?, \d+ failures?`,
    String.raw`': ok$`,
  ].join("|"),
  "mu",
);

/** Undefined: the log does not describe a run of the tests. */
export function statusesOf(parser: LogParser, { output, whole = output, exitCode }: TestLog): StatusMap | undefined {
  let statuses = parser(output);
  if (statuses.size === 0) statuses = parser(whole);
  if (statuses.size === 0) return SUITE_RAN.test(whole) ? statuses : undefined;
  // Tests that ended with an error, and a log without one: what it says was printed by somebody else.
  const failures: readonly TestStatus[] = ["FAILED", "ERROR"];
  const isForged = (exitCode ?? 0) !== 0 && ![...statuses.values()].some((status) => failures.includes(status));
  return isForged ? undefined : statuses;
}

/** The two lists of an instance. */
export interface ExpectedTests {
  readonly failToPass: readonly string[];
  readonly passToPass: readonly string[];
  readonly evalType: EvalType;
}

export interface TestReport {
  readonly resolution: Resolution;
  /** Shares that passed. */
  readonly failToPass: number;
  readonly passToPass: number;
  /** Tests of both lists that did not. */
  readonly failed: readonly string[];
}

export function reportOf(statuses: StatusMap, expected: ExpectedTests): TestReport {
  const { failToPass, passToPass, evalType } = expected;
  const failed = (skipPasses: boolean) => (name: string) =>
    evalType === "fail_only" ? statuses.get(name) === "FAILED" : !passes(name, statuses, skipPasses);
  const [broken, regressed] = [failToPass.filter(failed(false)), passToPass.filter(failed(true))];
  const [f2p, p2p] = [shareLeft(failToPass, broken), shareLeft(passToPass, regressed)];
  const isWhole = f2p === 1 && p2p === 1;
  const isPart = f2p > 0 && f2p < 1 && p2p === 1;
  const resolution = isWhole ? "RESOLVED_FULL" : isPart ? "RESOLVED_PARTIAL" : "RESOLVED_NO";
  return { resolution, failToPass: f2p, passToPass: p2p, failed: [...broken, ...regressed] };
}

function shareLeft(all: readonly string[], without: readonly string[]): number {
  return all.length === 0 ? 1 : (all.length - without.length) / all.length;
}

/** A test that is skipped is not broken by the repair, and not mended by it either. */
function passes(name: string, statuses: StatusMap, skipPasses: boolean): boolean {
  const status = statusOf(name, statuses);
  return status === "PASSED" || status === "XFAIL" || (skipPasses && status === "SKIPPED");
}

/** Some names in SWE-bench Verified end within their parameter: they stand for all that go on, where these agree. */
function statusOf(name: string, statuses: StatusMap): TestStatus | undefined {
  const exact = statuses.get(name);
  if (exact !== undefined || count(name, "[") <= count(name, "]")) return exact;
  const found = [...statuses].filter(([longer]) => longer.startsWith(name)).map(([, status]) => status);
  const outcomes = new Set(found.map((status) => status === "PASSED" || status === "XFAIL"));
  return outcomes.size === 1 ? found[0] : undefined;
}

function count(text: string, part: string): number {
  return text.split(part).length - 1;
}

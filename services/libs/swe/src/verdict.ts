// SPDX-License-Identifier: Apache-2.0

export type TestResult = "passed" | "failed" | "skipped";

/** What the grader's run of the tests came to. */
export interface TestRun {
  readonly results: Readonly<Record<string, TestResult>>;
  /** pytest came to its end by itself: it was not ended by the library's code, or a limit. */
  readonly finished: boolean;
  /** What the change has that no repair needs. The tests were not run then. */
  readonly tampering: readonly string[];
}

export interface Verdict {
  /** Every test that the bug broke passes, and every other one still does. */
  readonly resolved: boolean;
  /** Shares that pass, of those that the bug broke, and of the others. */
  readonly failToPass: number;
  readonly passToPass: number;
  /** Their product: how far a repair came without a test that it broke. */
  readonly dense: number;
  /** Why nothing counts, where nothing does. */
  readonly reason?: string | undefined;
}

const NOTHING = { resolved: false, failToPass: 0, passToPass: 0, dense: 0 } as const;

/** A test that is missing or skipped has not passed. */
export function verdictOf(run: TestRun, failToPass: readonly string[], stable: readonly string[]): Verdict {
  if (run.tampering.length > 0) return unresolved(`it reaches for the tests: ${run.tampering.join("; ")}`);
  if (!run.finished) return unresolved("the tests did not come to their end");
  const broken = new Set(failToPass);
  const [fixed, kept] = [failToPass, stable.filter((test) => !broken.has(test))].map((tests) => shareOf(tests, run));
  const [f2p, p2p] = [fixed ?? 0, kept ?? 0];
  return { resolved: f2p === 1 && p2p === 1, failToPass: f2p, passToPass: p2p, dense: f2p * p2p };
}

export function unresolved(reason: string): Verdict {
  return { ...NOTHING, reason };
}

function shareOf(tests: readonly string[], { results }: TestRun): number {
  if (tests.length === 0) return 1;
  return tests.filter((test) => results[test] === "passed").length / tests.length;
}

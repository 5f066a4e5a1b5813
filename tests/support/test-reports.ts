// SPDX-License-Identifier: Apache-2.0
// What the reports of the test runners say: how many passed, and which did not and why.
export interface Outcome {
  readonly passed: number;
  /** One text each: the test's name, then the beginning of its reason. */
  readonly failures: readonly string[];
}

const REASON_CHARACTERS = 500;

/** vitest's `--reporter=json`. A file that fails to load is a failure without a failed test. */
export function readVitest(json: string): Outcome {
  const { numPassedTests, testResults } = JSON.parse(json) as VitestReport;
  const failures = testResults.flatMap(({ name, status, message, assertionResults }) => {
    const failed = assertionResults.filter((test) => test.status === "failed");
    if (failed.length === 0 && status === "failed") return [failure(name, message)];
    return failed.map(({ fullName, failureMessages }) => failure(`${name}: ${fullName}`, failureMessages.join("\n")));
  });
  return { passed: numPassedTests, failures };
}

interface VitestReport {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** pytest's `--junitxml`. */
export function readPytest(xml: string): Outcome {
  const suite = /<testsuite [^>]*>/.exec(xml)?.[0] ?? "";
  const of = (name: string): number => Number(new RegExp(` ${name}="(\\d+)"`).exec(suite)?.[1] ?? 0);
  const failures = xml.split("<testcase ").slice(1).flatMap(failedCase);
  return { passed: of("tests") - of("failures") - of("errors") - of("skipped"), failures };
}

function failedCase(xml: string): string[] {
  const [, where = "", name = ""] = /^classname="([^"]*)" name="([^"]*)"/.exec(xml) ?? [];
  const [, why] = /<(?:failure|error) message="([^"]*)"/.exec(xml) ?? [];
  return why === undefined ? [] : [failure(plain(`${where}: ${name}`), plain(why))];
}

function plain(xml: string): string {
  const entities: Record<string, string> = { quot: '"', lt: "<", gt: ">", apos: "'", "#10": "\n", amp: "&" };
  return xml.replace(/&(quot|lt|gt|apos|#10|amp);/g, (_, name: string) => entities[name] ?? "");
}

/** The report of tests/e2e. */
export function readE2e(json: string): Outcome {
  const { phases } = JSON.parse(json) as { phases: { name: string; said: string; outcome: string }[] };
  const of = (outcome: string) => phases.filter((phase) => phase.outcome === outcome);
  return { passed: of("passed").length, failures: of("failed").map(({ name, said }) => failure(name, said)) };
}

function failure(name: string, reason: string): string {
  const lines = reason.trim().slice(0, REASON_CHARACTERS).split("\n");
  return [name, ...lines.map((line) => `    ${line}`)].join("\n");
}

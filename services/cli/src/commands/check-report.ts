// SPDX-License-Identifier: Apache-2.0
/** What `whet envs check` and `whet engines check` print: a row for each check, and the exit code. */
import { EXIT } from "../cli-error.ts";
import type { CheckResult } from "../conformance/run-checks.ts";
import { formatTable } from "../terminal/format.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Outcome } from "./context.ts";

interface ReportDeps {
  readonly json: boolean;
  readonly terminal: Terminal;
  /** Gets the exit code 1 when a check failed. */
  readonly outcome: Outcome;
}

export function reportChecks(
  target: string,
  results: readonly CheckResult[],
  { json, terminal, outcome }: ReportDeps,
): void {
  const failed = results.filter(({ result }) => result === "failed").length;
  if (failed > 0) outcome.exitCode = EXIT.other;
  if (json) return terminal.json({ target, passed: failed === 0, checks: results });
  const rows = results.map(({ check, result, detail }) => [check, result, detail]);
  for (const line of formatTable(["CHECK", "RESULT", "WHAT WAS SEEN"], rows)) terminal.line(line);
}

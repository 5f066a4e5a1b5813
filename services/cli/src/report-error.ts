// SPDX-License-Identifier: Apache-2.0
/** The one seam from errors to what the user sees: text or JSON, and the exit code. */
import { ConfigError, WhetstoneError } from "@whetstone/core";

import type { Terminal } from "./terminal/terminal.ts";
import type { ExitCode, Violation } from "./cli-error.ts";
import { CliError, EXIT } from "./cli-error.ts";

interface Report {
  readonly code: string;
  readonly message: string;
  readonly violations: readonly Violation[];
  readonly exitCode: ExitCode;
}

/** Prints an error, answers the exit code. */
export function reportError(error: unknown, json: boolean, terminal: Terminal): ExitCode {
  const report = describe(error);
  if (json) {
    const { code, message, violations } = report;
    terminal.json({ error: { code, message, violations } });
  } else {
    for (const line of linesOf(report)) terminal.error(line);
  }
  if (!(error instanceof Error && isExpected(error)) && process.env["WHETSTONE_DEBUG"])
    terminal.error(error instanceof Error ? (error.stack ?? "") : String(error));
  return report.exitCode;
}

/** Violations are lines of their own: field path, then the reason. */
function linesOf({ message, violations }: Report): string[] {
  if (violations.length > 0) return violations.map(({ path, reason }) => `${path}: ${reason}`);
  return [`whet: ${message}`];
}

function describe(error: unknown): Report {
  if (error instanceof CliError) return error;
  if (error instanceof ConfigError) return report("INVALID_ARGUMENT", error.message, error.violations);
  if (error instanceof WhetstoneError) return report(error.code, error.message, violationsOf(error));
  return report("INTERNAL", error instanceof Error ? error.message : String(error), []);
}

function report(code: string, message: string, violations: readonly Violation[]): Report {
  const bad = violations.length > 0 || BAD_INPUT.has(code);
  return { code, message, violations, exitCode: bad ? EXIT.badInput : EXIT.other };
}

const BAD_INPUT: ReadonlySet<string> = new Set([
  "INVALID_ARGUMENT",
  "UNKNOWN_SETTING",
  "UNSUPPORTED_SETTING",
  "ALREADY_EXISTS",
  "NOT_FOUND",
]);

function violationsOf(error: WhetstoneError): readonly Violation[] {
  const listed = error.context["violations"];
  return Array.isArray(listed) ? (listed as Violation[]) : [];
}

function isExpected(error: Error): boolean {
  return error instanceof CliError || error instanceof WhetstoneError;
}

// SPDX-License-Identifier: Apache-2.0
import { END_MARKER, START_MARKER } from "./swe-bench-verdict.ts";

/** SWE-bench's script in the two parts that are run as commands of their own. */
export interface EvalScript {
  /** Installs, puts the tests in place. */
  readonly before: string;
  /** The tests' command, whose output and exit code are judged. */
  readonly tests: string;
}

const OWN_LINES: ReadonlySet<string> = new Set(["#!/bin/bash", "set -uxo pipefail"]);

/** Undefined: it does not say where the tests begin and end. What follows the tests resets them, which a sandbox does not need. */
export function readEvalScript(script: string): EvalScript | undefined {
  const lines = script.trim().split("\n");
  const start = lines.findIndex((line) => line.includes(START_MARKER));
  const end = lines.findIndex((line) => line.includes(END_MARKER));
  if (start < 0 || end <= start + 1) return undefined;
  const before = lines.slice(0, start).filter((line) => !OWN_LINES.has(line));
  return { before: before.join("\n"), tests: lines.slice(start + 1, end).join("\n") };
}

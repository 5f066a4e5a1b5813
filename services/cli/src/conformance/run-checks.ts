// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";

/** Thrown where what is checked cannot show what is asked: neither right nor wrong. */
export class Skipped extends Error {}

/** Says what it saw, or throws what is wrong. */
export type RunCheck = () => Promise<string>;

export interface CheckResult {
  readonly check: string;
  readonly result: "passed" | "failed" | "skipped";
  /** What was seen, or what is wrong. */
  readonly detail: string;
}

/** One after the other, by the names that users see; a failed one does not keep the next from running. */
export async function* runChecks(checks: Readonly<Record<string, RunCheck>>): AsyncGenerator<CheckResult> {
  for (const [check, run] of Object.entries(checks)) {
    try {
      yield { check, result: "passed", detail: await run() };
    } catch (error) {
      const result = error instanceof Skipped ? "skipped" : "failed";
      yield { check, result, detail: error instanceof Error ? error.message : WhetstoneError.from(error).message };
    }
  }
}

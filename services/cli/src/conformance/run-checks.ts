// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";

import { CHECKS, Skipped } from "./checks.ts";
import type { CheckSettings, Subject } from "./subject.ts";

export interface CheckResult {
  readonly check: string;
  readonly result: "passed" | "failed" | "skipped";
  /** What was seen, or what is wrong. */
  readonly detail: string;
}

/** One after the other; a failed one does not keep the next from running. */
export async function* runChecks(subject: Subject, settings: CheckSettings): AsyncGenerator<CheckResult> {
  for (const [check, run] of Object.entries(CHECKS)) {
    try {
      yield { check, result: "passed", detail: await run(subject, settings) };
    } catch (error) {
      const result = error instanceof Skipped ? "skipped" : "failed";
      yield { check, result, detail: error instanceof Error ? error.message : WhetstoneError.from(error).message };
    }
  }
}

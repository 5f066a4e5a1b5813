// SPDX-License-Identifier: Apache-2.0
import type { EvalScript } from "../formats/eval-script.ts";
import type { TestLog } from "../formats/swe-bench-verdict.ts";
import type { Verdict } from "../verdict.ts";

/** A repository to be repaired, in whatever format its task came. */
export interface RepositoryTask {
  readonly id: string;
  /** What the agent is told. */
  readonly statement: string;
  readonly image: string;
  /** Taken away before the agent comes: absolute, or relative to the repository. */
  readonly hidden: readonly string[];
  /** Put back as the repository has them, whatever the agent has made of them. */
  readonly tests: readonly string[];
  /** What the task's own repair touches: to change it is no trick. */
  readonly repaired: readonly string[];
  readonly script: EvalScript;
  judge(log: TestLog): InstanceVerdict;
}

export interface InstanceVerdict extends Verdict {
  /** More for the episode's record. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

// SPDX-License-Identifier: Apache-2.0
import type { Info } from "@whetstone/sdk";

// What crosses between the env-runner and the child that runs a job's environments.

export interface ResetCall {
  readonly session: number;
  readonly kind: string;
  readonly args: Info;
  readonly seed: number;
}

/** Answered with the graded result: the last step's reward is the final one. */
export interface StepCall {
  readonly session: number;
  readonly action: unknown;
}

export interface CloseCall {
  readonly session: number;
}

export interface KindDescription {
  readonly kind: string;
  readonly description: string;
  readonly argsSchemaJson: string;
  readonly seedable: boolean;
}

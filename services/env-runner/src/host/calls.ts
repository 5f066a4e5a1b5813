// SPDX-License-Identifier: Apache-2.0
import type { BrowserSettings, Info, PageRequest, PageState, ResetResult } from "@whetstone/sdk";

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

/** Answers a reset of what is played in a browser: its functions are called from then on, in place of steps. */
export interface BegunTask {
  readonly browser: {
    readonly goal: string;
    readonly url: string;
    readonly reads: Readonly<Record<string, string>>;
    readonly settings: BrowserSettings;
    readonly callTimeoutMs: number | undefined;
    /** It answers the pages of the url's origin. */
    readonly serves: boolean;
  };
}

export interface CheckCall {
  readonly session: number;
  readonly page: PageState;
}

export interface ServeCall {
  readonly session: number;
  readonly request: PageRequest;
}

export function isBegunTask(answer: ResetResult | BegunTask): answer is BegunTask {
  return "browser" in answer;
}

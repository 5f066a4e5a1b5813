// SPDX-License-Identifier: Apache-2.0

/** What a workflow gets beside its task. */
export interface WorkflowContext {
  /** The episode's id. */
  readonly uid: string;
  readonly seed: number;
  /** The episode's deadline and its caller's cancel. */
  readonly signal: AbortSignal;
  /** Milliseconds until the deadline. */
  readonly remainingMs: () => number;
}

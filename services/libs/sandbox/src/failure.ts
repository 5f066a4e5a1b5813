// SPDX-License-Identifier: Apache-2.0
import { type ErrorCode, WhetstoneError } from "@whetstone/core";

/**
 * What went wrong on our side. It says nothing about the policy, so it is never a reward of 0 (I6): the episode is played again.
 * UNAVAILABLE: no sandbox of the level that was asked for can be had here. START: a command could not be started. LOST: the
 * sandbox ended by itself. EXPIRED: its time to live is over. CLOSED: it was used after it was closed.
 */
export const PLATFORM_FAILURES = ["UNAVAILABLE", "START", "LOST", "EXPIRED", "CLOSED"] as const;
export type PlatformFailure = (typeof PLATFORM_FAILURES)[number];

/** Which limit the policy's command ran into. It is an outcome of the command, not an error of ours. */
export const POLICY_FAILURES = ["DEADLINE", "MEMORY", "PROCESSES", "DISK", "OUTPUT"] as const;
export type PolicyFailure = (typeof POLICY_FAILURES)[number];

const CODES = {
  UNAVAILABLE: "FAILED_PRECONDITION",
  START: "UNAVAILABLE",
  LOST: "UNAVAILABLE",
  EXPIRED: "DEADLINE_EXCEEDED",
  CLOSED: "FAILED_PRECONDITION",
} as const satisfies Record<PlatformFailure, ErrorCode>;

/** A platform failure. */
export class SandboxError extends WhetstoneError {
  override readonly name = "SandboxError";
  readonly failure: PlatformFailure;

  constructor(failure: PlatformFailure, message: string, options: { readonly cause?: unknown } = {}) {
    super(CODES[failure], message, options);
    this.failure = failure;
  }
}

/** Files could not be written because of what is in their way: a link, a folder, a file where a folder should be. */
export class FileConflictError extends WhetstoneError {
  override readonly name = "FileConflictError";

  constructor(message: string) {
    super("FAILED_PRECONDITION", message, { retry: "never" });
  }
}

/** What was asked of the sandbox ran into a limit that the policy's commands have used up. */
export class LimitError extends WhetstoneError {
  override readonly name = "LimitError";
  readonly failure: PolicyFailure;

  constructor(failure: PolicyFailure, message: string) {
    super("RESOURCE_EXHAUSTED", message, { retry: "never" });
    this.failure = failure;
  }
}

// SPDX-License-Identifier: Apache-2.0
import { type ErrorCode, WhetstoneError } from "@whetstone/core";
import type { DeadlinePolicy } from "./job/generated/settings.ts";

/** Why an episode ended. Set by the engine, never by an agent or environment. */
export const TERMINATION_REASONS = [
  "ENV_DONE",
  "MAX_TURNS",
  "MAX_PROMPT_LENGTH",
  "MAX_RESPONSE_LENGTH",
  "DEADLINE",
  "CANCELLED",
  "ERROR",
] as const;
export type TerminationReason = (typeof TERMINATION_REASONS)[number];

/** Closed; each class has exactly one policy (I6). */
export const FAILURE_CLASSES = [
  "NONE",
  "POLICY",
  "TASK",
  "ENVIRONMENT",
  "INFRASTRUCTURE",
  "GRADER",
  "DEADLINE",
] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

export type Phase = "reset" | "model" | "step" | "reward" | "close";

export interface Failure {
  readonly class: FailureClass;
  /** Where: a phase of the engine, or of who seals the episode. Empty when nothing failed. */
  readonly phase: Phase | "render" | "publish" | "module" | "";
  readonly message: string;
  readonly code: string;
}

export const NO_FAILURE: Failure = { class: "NONE", phase: "", message: "", code: "" };

/** Played again with a fresh agent and environment; every other class is final. */
const RETRIED: ReadonlySet<FailureClass> = new Set(["ENVIRONMENT", "INFRASTRUCTURE", "GRADER"]);

export function isRetried(failureClass: FailureClass): boolean {
  return RETRIED.has(failureClass);
}

export interface EpisodeErrorOptions {
  readonly code?: ErrorCode;
  readonly cause?: unknown;
  readonly culprit?: object;
}

/** Thrown by agents, environments and clients that know the class of what went wrong. */
export class EpisodeError extends WhetstoneError {
  readonly failureClass: FailureClass;
  /** The user's function that answered wrongly: no stack names it, since it has returned. A host of modules knows its line. */
  readonly culprit: object | undefined;

  constructor(failureClass: FailureClass, message: string, options: EpisodeErrorOptions = {}) {
    const { code = CODE_OF_CLASS[failureClass], cause, culprit } = options;
    super(code, message, { cause });
    this.failureClass = failureClass;
    this.culprit = culprit;
  }
}

/** The prompt is longer than the episode or the engine allows; ends the episode with MAX_PROMPT_LENGTH. */
export class PromptTooLongError extends WhetstoneError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super("INVALID_ARGUMENT", message, options);
  }
}

const CODE_OF_CLASS = {
  NONE: "INTERNAL",
  POLICY: "INVALID_ARGUMENT",
  TASK: "TASK_INVALID",
  ENVIRONMENT: "ENVIRONMENT_FAILED",
  INFRASTRUCTURE: "UNAVAILABLE",
  GRADER: "GRADER_FAILED",
  DEADLINE: "DEADLINE_EXCEEDED",
} as const satisfies Record<FailureClass, ErrorCode>;

/** What a code says by itself, whatever the phase. Codes that are missing say nothing: the phase decides. */
const CLASS_OF_CODE: Partial<Record<ErrorCode, FailureClass>> = {
  TASK_INVALID: "TASK",
  UNKNOWN_SETTING: "TASK",
  UNSUPPORTED_SETTING: "TASK",
  ENVIRONMENT_FAILED: "ENVIRONMENT",
  GRADER_FAILED: "GRADER",
  UNAVAILABLE: "INFRASTRUCTURE",
  RESOURCE_EXHAUSTED: "INFRASTRUCTURE",
  ENGINE_FAILED: "INFRASTRUCTURE",
  CONTRACT_VIOLATION: "INFRASTRUCTURE",
  DATA_LOSS: "INFRASTRUCTURE",
  MODULE_CRASHED: "INFRASTRUCTURE",
  MODULE_HUNG: "INFRASTRUCTURE",
  MODULE_TOO_LARGE: "INFRASTRUCTURE",
};

const CLASS_OF_PHASE = {
  reset: "ENVIRONMENT",
  model: "INFRASTRUCTURE",
  step: "ENVIRONMENT",
  reward: "GRADER",
  close: "NONE", // The result is known by then; what did not close is reported, not voided.
} as const satisfies Record<Phase, FailureClass>;

/** What a phase's failure is where nobody knows better. */
export function failureClassOf(phase: Phase): FailureClass {
  return CLASS_OF_PHASE[phase];
}

/**
 * Its reward means something (I6): it ended by itself, or by a failure of the policy's own. What is not scored is no part
 * of any statistics and trains nothing.
 */
export function isScored(
  { failure, terminationReason }: { readonly failure: Failure; readonly terminationReason: TerminationReason },
  deadlinePolicy: DeadlinePolicy = "void",
): boolean {
  if (terminationReason === "CANCELLED") return false;
  if (failure.class === "DEADLINE") return deadlinePolicy !== "void";
  return failure.class === "NONE" || failure.class === "POLICY";
}

const MAX_MESSAGE_CHARACTERS = 1000;

/** What an error says about itself; undefined: nothing, so where it happened decides. */
export function ownClass(thrown: unknown): FailureClass | undefined {
  return thrown instanceof EpisodeError ? thrown.failureClass : CLASS_OF_CODE[WhetstoneError.from(thrown).code];
}

export function classify(thrown: unknown, phase: Phase): Failure {
  const error = WhetstoneError.from(thrown);
  return {
    class: phase === "close" ? "NONE" : (ownClass(thrown) ?? CLASS_OF_PHASE[phase]),
    phase,
    message: error.message.slice(0, MAX_MESSAGE_CHARACTERS),
    code: error.code,
  };
}

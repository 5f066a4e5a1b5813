// SPDX-License-Identifier: Apache-2.0

/** Every code that may cross a process boundary. Text is for people, code is for code. */
export const ERROR_CODES = [
  "INVALID_ARGUMENT",
  "UNKNOWN_SETTING",
  "UNSUPPORTED_SETTING",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "CONFLICT",
  "FAILED_PRECONDITION",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "UNAVAILABLE",
  "DEADLINE_EXCEEDED",
  "CANCELLED",
  "RESOURCE_EXHAUSTED",
  "UNIMPLEMENTED",
  "INTERNAL",
  "DATA_LOSS",
  "CONTRACT_VIOLATION",
  "STALE_EPOCH",
  "STALE_POLICY",
  "TASK_INVALID",
  "ENVIRONMENT_FAILED",
  "GRADER_FAILED",
  "ENGINE_FAILED",
  "TRAINER_FAILED",
  "MODULE_CRASHED",
  "MODULE_HUNG",
  "MODULE_TOO_LARGE",
  "HANDED_BACK",
] as const;
export type ErrorCode = (typeof ERROR_CODES)[number];

/** `never`: the same call fails again. `safe`: repeat at once or with back-off. `later`: repeat once something has freed. */
export const RETRY_CLASSES = ["never", "safe", "later"] as const;
export type RetryClass = (typeof RETRY_CLASSES)[number];

/** One refused field: `loop.batchGroups` and why. */
export interface Violation {
  readonly path: string;
  readonly reason: string;
}

export type ErrorContext = Readonly<Record<string, unknown>>;

export interface ErrorOptions {
  readonly retry?: RetryClass | undefined;
  readonly context?: ErrorContext | undefined;
  readonly cause?: unknown;
}

const DEFAULT_RETRY: Partial<Record<ErrorCode, RetryClass>> = {
  UNAVAILABLE: "safe",
  DEADLINE_EXCEEDED: "safe",
  ENVIRONMENT_FAILED: "safe",
  ENGINE_FAILED: "safe",
  MODULE_CRASHED: "safe",
  MODULE_HUNG: "safe",
  MODULE_TOO_LARGE: "safe",
  RESOURCE_EXHAUSTED: "later",
  HANDED_BACK: "later",
};

export class WhetstoneError extends Error {
  override readonly name: string = "WhetstoneError";
  readonly code: ErrorCode;
  readonly retry: RetryClass;
  readonly context: ErrorContext;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retry = options.retry ?? DEFAULT_RETRY[code] ?? "never";
    this.context = options.context ?? {};
  }

  /** Anything thrown becomes a WhetstoneError; one that already is stays itself. Unknown errors are INTERNAL. */
  static from(thrown: unknown): WhetstoneError {
    if (thrown instanceof WhetstoneError) return thrown;
    if (isTimeout(thrown)) return new WhetstoneError("DEADLINE_EXCEEDED", messageOf(thrown), { cause: thrown });
    if (isAbort(thrown)) return new WhetstoneError("CANCELLED", messageOf(thrown), { cause: thrown });
    return new WhetstoneError("INTERNAL", messageOf(thrown), { cause: thrown });
  }
}

/** All room is taken. Whoever asked is to ask again later, here or elsewhere: it says nothing about what was asked for. */
export class NoRoomError extends WhetstoneError {
  override readonly name = "NoRoomError";

  constructor(message: string, context: ErrorContext = {}) {
    super("RESOURCE_EXHAUSTED", message, { retry: "later", context });
  }
}

/** Input refused field by field. The message lists every violation, so that one round trip shows all of them (I11). */
export class ConfigError extends WhetstoneError {
  override readonly name = "ConfigError";
  readonly violations: readonly Violation[];

  constructor(violations: readonly Violation[], options: ErrorOptions & { readonly code?: ErrorCode } = {}) {
    const lines = violations.map(({ path, reason }) => `${path === "" ? "(root)" : path}: ${reason}`);
    super(options.code ?? "INVALID_ARGUMENT", lines.join("\n"), { ...options, retry: "never" });
    this.violations = violations;
  }
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

function isTimeout(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "TimeoutError";
}

/** True for a cancelled call, whoever says so: DOMException, node streams, or our own CANCELLED. Never retried or logged as an error. */
export function isAbort(thrown: unknown): boolean {
  if (thrown instanceof WhetstoneError) return thrown.code === "CANCELLED";
  return (
    thrown instanceof Error && (thrown.name === "AbortError" || (thrown as { code?: unknown }).code === "ABORT_ERR")
  );
}

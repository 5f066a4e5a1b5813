// SPDX-License-Identifier: Apache-2.0
/** What ends a command early. The exit code is part of the command line's contract (docs: `whet --help`). */

/** 0 done, 1 anything else, 2 bad input, 3 the job failed. */
export const EXIT = { ok: 0, other: 1, badInput: 2, jobFailed: 3 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** One thing wrong with what the user gave. `path` is a field path, an option or a file. */
export interface Violation {
  readonly path: string;
  readonly reason: string;
}

export class CliError extends Error {
  readonly code: string;
  readonly exitCode: ExitCode;
  readonly violations: readonly Violation[];

  constructor(
    code: string,
    message: string,
    options: { exitCode?: ExitCode; violations?: readonly Violation[]; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "CliError";
    this.code = code;
    this.exitCode = options.exitCode ?? EXIT.other;
    this.violations = options.violations ?? [];
  }
}

/** Bad input: exit code 2, one line for each violation. */
export function badInput(violations: readonly Violation[], code = "INVALID_ARGUMENT"): CliError {
  const message = violations.map((violation) => `${violation.path}: ${violation.reason}`).join("\n");
  return new CliError(code, message, { exitCode: EXIT.badInput, violations });
}

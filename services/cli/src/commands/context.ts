// SPDX-License-Identifier: Apache-2.0
/** What every command gets. Plain parameters, so that tests can run a command in-process. */
import type { Terminal } from "../terminal/terminal.ts";

export interface CommandContext {
  readonly terminal: Terminal;
  readonly environment: NodeJS.ProcessEnv;
  /** Aborted by Ctrl-C or SIGTERM. */
  readonly signal: AbortSignal;
  /** Aborted by the second one: no more waiting. */
  readonly force: AbortSignal;
}

/** Options that every command has. */
export interface CommonOptions {
  readonly json?: boolean;
  readonly data?: string;
}

/** Where a command leaves an exit code that is not an error, e.g. 3: the job failed. */
export interface Outcome {
  exitCode: number;
}

// SPDX-License-Identifier: Apache-2.0
/** What every command gets. Plain parameters, so that tests can run a command in-process. */
import type { Terminal } from "../adapters/terminal.ts";

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

// SPDX-License-Identifier: Apache-2.0
import type { ExecResult, Sandbox } from "@whetstone/sandbox";

export interface CommandOptions {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /** All of standard input. Default: none. */
  readonly stdin?: string | Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The sandbox of one agent with a repository in it. */
export interface AgentShell extends AsyncDisposable {
  readonly sandbox: Sandbox;
  /** Of the repository, absolute. */
  readonly root: string;
  /** A command of bash's, in the repository. */
  run(command: string, options: CommandOptions): Promise<ExecResult>;
}

/** A word for a shell, whatever is in it. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

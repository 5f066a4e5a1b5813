// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import type { Execution, ProcessSandbox } from "@whetstone/sandbox";

// The server is a process group of its own, kept by a shell which waits beside it for a word in a pipe. It is ended in order:
// its standard input is closed; then its group gets SIGTERM; then the sandbox is closed, which kills whatever is left.

/** $0 is the pipe, the rest the server's command. */
const KEEP = `mkfifo "$0" || exit 126
exec 3<&0
setsid "$@" <&3 3<&- &
server=$!
exec 3<&- </dev/null
(read -r _ <"$0"; kill -TERM "-$server") >/dev/null 2>&1 &
wait "$server"`;
const PIPE = "whetstone-mcp-stop";

/** How long it may take after each step; together less than an env-runner waits for an environment to close. */
export const AFTER_INPUT_MS = 2_000;
export const AFTER_TERM_MS = 1_000;
const WEEK_MS = 7 * 86_400_000;
/** All that a server may print in an episode. */
const MAX_TOTAL_BYTES = 256 * 1024 * 1024;

export interface KeptServerOptions {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Output that is kept until it is read. */
  readonly maxOutputBytes: number;
}

export class KeptServer {
  readonly execution: Execution;
  readonly #sandbox: ProcessSandbox;

  constructor(sandbox: ProcessSandbox, { command, env, maxOutputBytes }: KeptServerOptions) {
    this.#sandbox = sandbox;
    this.execution = sandbox.exec(["sh", "-c", KEEP, this.#pipe, ...command], {
      env,
      deadlineMs: WEEK_MS,
      maxOutputBytes,
      maxTotalBytes: MAX_TOTAL_BYTES,
    });
  }

  /** In order, within AFTER_INPUT_MS + AFTER_TERM_MS and the time that a sandbox takes to close. */
  async end(): Promise<void> {
    try {
      this.execution.endInput();
      if (await this.#hasEnded(AFTER_INPUT_MS)) return;
      const told = this.#sandbox.exec(["sh", "-c", ': >"$0"', this.#pipe], { deadlineMs: AFTER_TERM_MS });
      told.result.catch(() => undefined); // What is left is killed anyway.
      await this.#hasEnded(AFTER_TERM_MS);
    } finally {
      await this.#sandbox.close();
    }
  }

  get #pipe(): string {
    return `${this.#sandbox.temporary}/${PIPE}`;
  }

  async #hasEnded(withinMs: number): Promise<boolean> {
    const stop = new AbortController();
    const ended = this.execution.result.then(
      () => true,
      () => true,
    );
    const late = sleep(withinMs, stop.signal).then(
      () => false,
      () => false,
    );
    try {
      return await Promise.race([ended, late]);
    } finally {
      stop.abort();
    }
  }
}

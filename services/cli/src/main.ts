// SPDX-License-Identifier: Apache-2.0
/** Entry of `whet`: signals in, exit code out. */
import { READER, serveReader } from "./modules/module-reader.ts";
import { createTerminal } from "./terminal/terminal.ts";
import { EXIT } from "./cli-error.ts";
import { runCommand } from "./run-command.ts";

if (process.argv[2] === READER) serveReader();
else await runWhet();

async function runWhet(): Promise<void> {
  const [interrupt, force] = [new AbortController(), new AbortController()];
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => (interrupt.signal.aborted ? force : interrupt).abort());
  }
  // `whet … | head` closes the pipe: that is an end, not a failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) =>
    process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.other),
  );

  const context = {
    terminal: createTerminal(),
    environment: process.env,
    signal: interrupt.signal,
    force: force.signal,
  };
  process.exitCode = await runCommand(process.argv.slice(2), context);
}

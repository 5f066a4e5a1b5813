// SPDX-License-Identifier: Apache-2.0
/** Entry of `whet`: parses, runs one command, and turns how it ended into output and an exit code. */
import { CommanderError } from "commander";

import { createTerminal } from "./adapters/terminal.ts";
import type { CommandContext } from "./commands/context.ts";
import { EXIT } from "./domain/cli-error.ts";
import { buildProgram } from "./program.ts";
import { reportError } from "./report-error.ts";

/** Runs the command line. Answers the exit code; throws nothing. */
export async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const json = argv.includes("--json");
  try {
    const outcome = { exitCode: EXIT.ok as number };
    await buildProgram(context, argv, outcome).parseAsync([...argv], { from: "user" });
    return outcome.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.badInput; // it has printed why
    return reportError(error, json, context.terminal);
  }
}

const [interrupt, force] = [new AbortController(), new AbortController()];
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => (interrupt.signal.aborted ? force : interrupt).abort());
}
// `whet … | head` closes the pipe: that is an end, not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) =>
  process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.other),
);
const context = { terminal: createTerminal(), environment: process.env, signal: interrupt.signal, force: force.signal };
process.exitCode = await main(process.argv.slice(2), context);

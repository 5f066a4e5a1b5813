// SPDX-License-Identifier: Apache-2.0
/** One command line, from words to an exit code. */
import { CommanderError } from "commander";

import type { CommandContext, Outcome } from "./commands/context.ts";
import { EXIT } from "./cli-error.ts";

import { buildProgram } from "./program.ts";
import { reportError } from "./report-error.ts";

/** Runs a command. Answers the exit code; throws nothing. */
export async function runCommand(argv: readonly string[], context: CommandContext): Promise<number> {
  const json = argv.includes("--json");
  const outcome: Outcome = { exitCode: EXIT.ok };
  await using opened = new AsyncDisposableStack();
  try {
    await buildProgram(context, argv, outcome, opened).parseAsync([...argv], { from: "user" });
    return outcome.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return usageError(error, json, context);
    return reportError(error, json, context.terminal);
  }
}

/** commander has printed help and usage errors itself, but not as JSON. */
function usageError(error: CommanderError, json: boolean, { terminal }: CommandContext): number {
  if (error.exitCode === 0) return EXIT.ok;
  const reason = error.message.replace(/^error: /, "");
  if (json) terminal.json({ error: { code: "USAGE", message: reason, violations: [{ path: "arguments", reason }] } });
  return EXIT.badInput;
}

// SPDX-License-Identifier: Apache-2.0
/** The commands of `whet` and their options. Each command's code is loaded when it runs, so that `--help` is quick. */
import { Command } from "commander";

import type { CommandContext } from "./commands/context.ts";
import type { RuntimeFlags } from "./commands/open-runtime.ts";
import { PORT_NAMES } from "./runtime/services.ts";

/** Where a command leaves an exit code that is not an error, e.g. 3: the job failed. */
export interface Outcome {
  exitCode: number;
}

const EXIT_CODES = "\nExit codes: 0 done, 2 bad input, 3 the job failed, 1 anything else.";

export function buildProgram(context: CommandContext, argv: readonly string[], outcome: Outcome): Command {
  const program = new Command("whet")
    .description("Post-trains language agents by reinforcement learning, on this machine or against a controller.")
    .configureHelp({ showGlobalOptions: true })
    .addHelpText("after", EXIT_CODES)
    .exitOverride();
  addRuntimeCommands(program, context, argv);
  void outcome;
  return program;
}

/** Every command speaks JSON and knows its data directory. */
export function command(parent: Command, name: string, description: string): Command {
  return parent
    .command(name)
    .description(description)
    .option("--json", "print JSON, also for errors")
    .option("--data <dir>", "data directory of the local runtime (default: WHETSTONE_DATA or .whetstone)")
    .exitOverride();
}

function addRuntimeCommands(program: Command, context: CommandContext, argv: readonly string[]): void {
  const up = command(program, "up", "start the local runtime: nats-server, engines, trainer and all services");
  runtimeOptions(up)
    .option("--detach", "return when everything is ready")
    .action(async (flags: RuntimeFlags & { detach?: boolean }) =>
      (await import("./commands/up.ts")).up(flags, context, argv),
    );
  command(program, "down", "stop the local runtime").action(async (flags: object) =>
    (await import("./commands/down.ts")).down(flags, context),
  );
  command(program, "status", "services, engines and the running job").action(async (flags: object) =>
    (await import("./commands/status.ts")).status(flags, context),
  );
}

/** What `up`, and `train` when it starts a runtime itself, can be told. */
export function runtimeOptions(target: Command): Command {
  target
    .option("--model <dir>", "model folder (default: a random tiny model, made on the spot)")
    .option("--engines <n>", "number of engines (default: 1)")
    .option("--trainer-threads <n>", "CPU threads of the trainer (default: 1)");
  for (const name of PORT_NAMES)
    target.option(`--${name}-port <port>`, `fix the port of ${name} (default: a free one)`);
  return target;
}

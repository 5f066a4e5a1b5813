// SPDX-License-Identifier: Apache-2.0
/** Commands about env-runners, what they can play, and engines. */
import type { Command } from "commander";

import { command } from "./command.ts";
import type { CommandContext, Outcome } from "./commands/context.ts";

export function addPoolCommands(program: Command, context: CommandContext): void {
  const pools = program.command("pools").description("env-runners, and how many there are").exitOverride();
  const load = async () => await import("./commands/pools.ts");
  command(pools, "ls", "all pools").action(async (flags: object) => (await load()).listPools(flags, context));
  command(pools, "get <name>", "one pool").action(async (name: string, flags: object) =>
    (await load()).getPool(name, flags, context),
  );
  command(pools, "scale <name> <n>", "set the number of env-runners; no episode is lost").action(
    async (name: string, count: string, flags: object) => (await load()).scalePool(name, count, flags, context),
  );
}

export function addEnvironmentCommands(program: Command, context: CommandContext, outcome: Outcome): void {
  const envs = program
    .command("envs")
    .description("environments that a job can name, and their arguments")
    .exitOverride();
  const load = async () => await import("./commands/envs.ts");
  const pool = ["--pool <name>", "of these env-runners (default: default)"] as const;
  command(envs, "ls", "all kinds of all pools")
    .option("--pool <name>", "of one pool only; an autoscaled one at zero starts an env-runner for it")
    .action(async (flags: object) => (await load()).listEnvironments(flags, context));
  command(envs, "describe <kind>", "its arguments, with ranges and defaults")
    .option(...pool)
    .action(async (kind: string, flags: object) => (await load()).describeEnvironment(kind, flags, context));
  episodeOptions(
    command(envs, "try <kind>", "play one episode yourself, line by line: a line is an action, its end Ctrl-D"),
  )
    .option("--seed <n>", "of the episode, where the environment draws (default: 0)")
    .option("--actions <file>", "play these instead, a line each")
    .option("--server <url>", "let a model play, by OpenAI's chat API; a key is taken from WHETSTONE_API_KEY")
    .option("--model <name>", "of that server (default: the first that it lists)")
    .option("--system <text>", "told to the model first")
    .action(async (kind: string, flags: object) =>
      (await import("./commands/env-try.ts")).tryEnvironment(kind, flags, context),
    );
  episodeOptions(
    command(envs, "check <kind|url>", "whether it keeps what training needs: a kind, or the URL of an OpenEnv server"),
  )
    .option("--seed <n>", "of the first episode (default: 1)")
    .option("--actions <file>", "play these in turns, a line each (default: eight words and numbers)")
    .option("--steps <n>", "most steps of an episode (default: 20)")
    .option("--sessions <n>", "at once (default: 4)")
    .option("--timeout <seconds>", "of one reset, step or close (default: 10)")
    .action(async (target: string, flags: object) =>
      (await import("./commands/env-check.ts")).checkEnvironment(target, flags, context, outcome),
    );
  episodeOptions(command(envs, "serve <kind>", "let others play it: an OpenEnv server, until Ctrl-C"))
    .option("--listen <host:port>", "port 0: any free one (default: 127.0.0.1:8000)")
    .option("--sessions <n>", "at once (default: 64)")
    .action(async (kind: string, flags: object) =>
      (await import("./commands/env-serve.ts")).serveEnvironment(kind, flags, context),
    );
}

/** Of commands that open episodes at an env-runner. */
function episodeOptions(of: Command): Command {
  return of
    .option("--args <json>", "the environment's arguments, as a job has them in environment.args")
    .option("--dataset <name|file>", "arguments of a task go over --args")
    .option("--task <n>", "which of the dataset, from 0 (default: 0)")
    .option("--runner <host:port>", "of this env-runner (default: the running runtime's)");
}

export function addEngineCommands(program: Command, context: CommandContext, outcome: Outcome): void {
  const engines = program.command("engines").description("engines that are no part of an installation").exitOverride();
  const collect = (value: string, before: string[] = []): string[] => [...before, value];
  command(
    engines,
    "check <url>",
    "whether a running engine speaks the engine protocol (docs/inference-engines.md); it serves nobody meanwhile",
  )
    .option("--model <dir>", "the weights that it serves, in a folder as the engine sees it; they are loaded again")
    .option("--other-model <dir>", "other weights of the same shape, to switch to and back")
    .option("--adapter <dir>", "a LoRA adapter of its model; two are compared", collect)
    .option("--only <names>", "only checks whose names begin so, e.g. T10,T2")
    .option("--tolerance <nats>", "how far log-probabilities may be apart; bfloat16 needs about 0.05 (default: 0.001)")
    .option("--timeout <seconds>", "of one request, and between two tokens of a stream (default: 30)")
    .option("--load-timeout <seconds>", "of one load of weights (default: 600)")
    .option("--force", "although requests run, which are aborted, or although it is paused")
    .action(async (url: string, flags: object) =>
      (await import("./commands/engine-check.ts")).checkEngine(url, flags, context, outcome),
    );
}

export function addFleetCommands(program: Command, context: CommandContext): void {
  const fleet = program.command("fleet").description("engines: what they serve, and how many there are").exitOverride();
  const load = async () => await import("./commands/fleet.ts");
  command(fleet, "status", "all engines").action(async (flags: object) => (await load()).fleetStatus(flags, context));
  command(fleet, "scale <name> <n>", "set the number of engines; calls of one that leaves go on elsewhere").action(
    async (name: string, count: string, flags: object) => (await load()).scaleFleet(name, count, flags, context),
  );
}

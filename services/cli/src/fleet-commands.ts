// SPDX-License-Identifier: Apache-2.0
/** Commands about env-runners, what they can play, and engines. */
import type { Command } from "commander";

import { command } from "./command.ts";
import type { CommandContext } from "./commands/context.ts";

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

export function addEnvironmentCommands(program: Command, context: CommandContext): void {
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
  command(envs, "try <kind>", "play one episode yourself, line by line: a line is an action, its end Ctrl-D")
    .option("--args <json>", "the environment's arguments, as a job has them in environment.args")
    .option("--dataset <name|file>", "arguments of a task go over --args")
    .option("--task <n>", "which of the dataset, from 0 (default: 0)")
    .option("--seed <n>", "of the episode, where the environment draws (default: 0)")
    .option("--actions <file>", "play these instead, a line each")
    .option("--server <url>", "let a model play, by OpenAI's chat API; a key is taken from WHETSTONE_API_KEY")
    .option("--model <name>", "of that server (default: the first that it lists)")
    .option("--system <text>", "told to the model first")
    .option("--runner <host:port>", "of this env-runner (default: the running runtime's)")
    .action(async (kind: string, flags: object) =>
      (await import("./commands/env-try.ts")).tryEnvironment(kind, flags, context),
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

// SPDX-License-Identifier: Apache-2.0
/** `whet serve` and `whet servings …`: policies that stay served. */
import type { Command } from "commander";

import { command } from "./command.ts";
import type { CommandContext } from "./commands/context.ts";

const SOURCE = "a job, JOB:VERSION, a folder, or artifact://models/NAME";

export function addServingCommands(program: Command, context: CommandContext): void {
  const load = async () => await import("./commands/servings.ts");
  limitOptions(
    command(program, "serve <source>", `serve a trained policy under a name, to clients with keys: ${SOURCE}`),
    "of its key",
  )
    .option("--name <name>", "what clients name as their model (default: the job's name, or the folder's)")
    .option("--weight <n>", "share of the engines, beside jobs (default: 1)")
    .option(
      "--beside <name>",
      "serve the LoRA adapter of the source, from the engines of this serving, whose weights it is of",
    )
    .option("--key-name <name>", "of its first key (default: default)")
    .option("--timeout <seconds>", "how long to wait until an engine serves it (default: 300; 0: not at all)")
    .action(async (source: string, flags: object) => (await load()).serve(source, flags, context));
  const servings = program
    .command("servings")
    .description("policies that are served: list, canary, promote, roll back, keys, feedback, stop")
    .exitOverride();
  command(servings, "ls", "all of them").action(async (flags: object) => (await load()).listServings(flags, context));
  command(servings, "get <name>", "one, with its versions and keys").action(async (name: string, flags: object) =>
    (await load()).getServing(name, flags, context),
  );
  command(servings, "set <name> <source>", `give it other weights at once: ${SOURCE}`).action(
    async (name: string, source: string, flags: object) => (await load()).setWeights(name, source, flags, context),
  );
  command(servings, "canary <name> [source]", "let a share of the conversations have other weights")
    .option("--percent <n>", "of the conversations, 1 to 99 (default: 10)")
    .option("--end", "all conversations get the newest weights again")
    .action(async (name: string, source: string | undefined, flags: object) =>
      (await load()).setCanary(name, source, flags, context),
    );
  command(servings, "promote <name>", "all conversations get the canary's weights").action(
    async (name: string, flags: object) => (await load()).promote(name, flags, context),
  );
  command(servings, "rollback <name>", "all conversations get earlier weights again")
    .option("--to <version>", "one that `get` lists (default: the one before the newest)")
    .action(async (name: string, flags: object) => (await load()).rollback(name, flags, context));
  limitOptions(
    command(servings, "key <name> <key-name>", "issue a key, in place of the one of that name"),
    "of the key",
  )
    .option("--revoke", "take it back instead")
    .action(async (name: string, keyName: string, flags: object) =>
      (await load()).changeKey(name, keyName, flags, context),
    );
  command(servings, "feedback <name>", "what clients said of its answers, as a data set for SFT")
    .requiredOption("--jsonl <file>", "the file to write, a task a line")
    .option("--min-reward <n>", "only of at least this reward (default: all)")
    .action(async (name: string, flags: object) =>
      (await import("./commands/serving-feedback.ts")).exportFeedback(name, flags as { jsonl: string }, context),
    );
  command(servings, "stop <name>", "end it: its clients get 401, its engines are free").action(
    async (name: string, flags: object) => (await load()).stop(name, flags, context),
  );
}

function limitOptions(of: Command, whose: string): Command {
  return of
    .option("--requests-per-minute <n>", `${whose}, at each gateway (default: no limit)`)
    .option("--tokens-per-minute <n>", `${whose}, of prompts and answers, at each gateway (default: no limit)`)
    .option("--max-running <n>", `requests at a time ${whose}, at each gateway (default: no limit)`);
}

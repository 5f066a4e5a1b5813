// SPDX-License-Identifier: Apache-2.0
import { resolve } from "node:path";

import type { Command } from "commander";

import type { ArtifactKindName } from "@whetstone/core";

import { command } from "./command.ts";
import type { CommandContext } from "./commands/context.ts";

/** What an installation keeps. Data sets of this machine are listed and removed by commands of the same names. */
export function addArtifactCommands(parent: Command, kind: ArtifactKindName, context: CommandContext): void {
  const load = async () => await import("./commands/artifacts.ts");
  const isOwnRegistry = kind === "datasets";
  const pushed = command(
    parent,
    isOwnRegistry ? "push <name> [path]" : "push <name> <path>",
    isOwnRegistry
      ? "keep a data set in the installation: the registered one, a file of rows, or a folder of splits"
      : "keep a folder, or a file, in the installation under a name",
  ).option("--replace", "give the name to these files, whatever it has now");
  if (isOwnRegistry) pushed.option("--split <name>", "only this split, or the split that the file becomes");
  pushed.action(async (name: string, path: string | undefined, flags: object) =>
    (await load()).push({ kind, name, path }, flags, context),
  );
  command(parent, "pull <name> [dir]", "copy it to this machine (default: into ./<name>)").action(
    async (name: string, directory: string | undefined, flags: object) =>
      (await load()).pull({ kind, name, folder: resolve(directory ?? name) }, flags, context),
  );
  if (isOwnRegistry) return;
  command(parent, "ls", "what the installation keeps").action(async (flags: object) =>
    (await load()).list(kind, flags, context),
  );
  command(parent, "rm <name>", "take the name away; files that a job has stay").action(
    async (name: string, flags: object) => (await load()).remove({ kind, name }, flags, context),
  );
}

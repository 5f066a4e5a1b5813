// SPDX-License-Identifier: Apache-2.0
/** `whet install` and `whet uninstall`. */
import type { Command } from "commander";

import { command } from "./command.ts";
import type { CommandContext } from "./commands/context.ts";

export function addClusterCommands(program: Command, context: CommandContext): void {
  const collect = (value: string, before: string[] = []): string[] => [...before, value];
  const load = async () => await import("./commands/install.ts");
  command(program, "install", "install or upgrade Whetstone on a Kubernetes cluster, with helm")
    .option("--kube", "on the cluster of --context (default: kubectl's current one)")
    .option("--values <file>", "values of the chart (repeatable)", collect)
    .option("--set <path=value>", "one value of the chart (repeatable)", collect)
    .option("--wait", "until every pod is ready (default)")
    .option("--no-wait", "return when the cluster has taken it")
    .option("--timeout <seconds>", "longest wait", "300")
    .action(async (_flags: object, own: Command) => (await load()).install(own.optsWithGlobals(), context));
  command(program, "uninstall", "remove an installation from a Kubernetes cluster")
    .option("--kube", "from the cluster of --context (default: kubectl's current one)")
    .option("--crds", "the custom resources too, and with them every job of the cluster")
    .action(async (_flags: object, own: Command) => (await load()).uninstall(own.optsWithGlobals(), context));
}

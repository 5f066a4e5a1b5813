// SPDX-License-Identifier: Apache-2.0
/** `--context` and WHETSTONE_CONTEXT: the command speaks to the controller of that cluster, as if it ran here. */
import { badInput } from "../cli-error.ts";
import type { ClusterChoice } from "../cluster/cluster-names.ts";
import type { CommandContext } from "./context.ts";

export interface ClusterFlags {
  readonly context?: string;
  readonly namespace?: string;
  readonly release?: string;
  /** `--remote`: about the installation, where the command is about this machine without. */
  readonly isRemote?: boolean;
}

/** Commands of this machine, which a cluster is no part of. */
const LOCAL = new Set([
  ...["init", "setup", "up", "down", "doctor", "models", "datasets", "tasks", "engines", "completion"],
]);
/** Those below them that are about the installation; `datasets ls` and `rm` are so with --remote. */
const REMOTE = new Set([
  ...["push", "pull"].flatMap((verb) => [`models ${verb}`, `datasets ${verb}`, `tasks ${verb}`]),
  ...["ls", "rm"].flatMap((verb) => [`models ${verb}`, `tasks ${verb}`]),
]);
/** They look at the cluster themselves. */
const OWN = new Set(["install", "uninstall"]);

/**
 * Sets WHETSTONE_ENDPOINT (and WHETSTONE_TLS_PATH) of the context for as long as the answer is open. Undefined: no cluster is meant.
 * @param words  of the command, e.g. ["jobs", "ls"]
 */
export async function useCluster(
  words: readonly string[],
  flags: ClusterFlags,
  { environment }: CommandContext,
): Promise<AsyncDisposable | undefined> {
  const [name = ""] = words;
  const isLocal = LOCAL.has(name) && !REMOTE.has(words.join(" ")) && flags.isRemote !== true;
  const choice = OWN.has(name) ? undefined : choiceOf(flags, environment);
  if (choice === undefined) return undefined;
  if (isLocal) {
    if (flags.context === undefined) return undefined;
    throw badInput([
      { path: "--context", reason: `\`whet ${words.join(" ")}\` is about this machine; it takes no cluster` },
    ]);
  }
  const { openCluster } = await import("../cluster/cluster.ts");
  const cluster = await openCluster(choice, environment);
  environment["WHETSTONE_CONTEXT"] = choice.context;
  environment["WHETSTONE_NAMESPACE"] = cluster.namespace;
  environment["WHETSTONE_RELEASE"] = cluster.release;
  environment["WHETSTONE_ENDPOINT"] = cluster.endpoint;
  if (cluster.tlsPath !== undefined) environment["WHETSTONE_TLS_PATH"] = cluster.tlsPath;
  return cluster;
}

export function choiceOf(flags: ClusterFlags, environment: NodeJS.ProcessEnv): ClusterChoice | undefined {
  const named = (option: string | undefined, variable: string): string | undefined =>
    option ?? (environment[variable] || undefined);
  const context = named(flags.context, "WHETSTONE_CONTEXT");
  if (context === undefined) {
    refuseAlone(flags);
    return undefined;
  }
  const namespace = named(flags.namespace, "WHETSTONE_NAMESPACE");
  const release = named(flags.release, "WHETSTONE_RELEASE");
  return { context, ...(namespace && { namespace }), ...(release && { release }) };
}

function refuseAlone(flags: ClusterFlags): void {
  const reason = "says where in a cluster: give --context too (`current` is kubectl's)";
  for (const option of ["namespace", "release"] as const)
    if (flags[option] !== undefined) throw badInput([{ path: `--${option}`, reason }]);
}

// SPDX-License-Identifier: Apache-2.0
// kubectl and helm, as a user calls them: the cluster is KUBECONFIG's current context.
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");
export const CHART = resolve(ROOT, "charts/whetstone");
const COMMAND_MS = 600_000;

export interface CommandResult {
  readonly status: number;
  readonly stdout: string;
  readonly output: string;
}

/** Runs a program to its end. */
export function attempt(program: string, args: readonly string[], input?: string): CommandResult {
  const options = { encoding: "utf8", maxBuffer: 2 ** 28, timeout: COMMAND_MS, input: input ?? "" } as const;
  const { status, stdout, stderr, error } = spawnSync(program, args, options);
  return { status: error ? 1 : (status ?? 1), stdout, output: `${stdout}${stderr}${error?.message ?? ""}` };
}

/** As `attempt`; throws when it fails. Answers its standard output. */
export function command(program: string, args: readonly string[], input?: string): string {
  const { status, stdout, output } = attempt(program, args, input);
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${status}:\n${output}`);
  return stdout;
}

export function kubectl(...args: string[]): string {
  return command("kubectl", args);
}

export function helm(...args: string[]): string {
  return command("helm", args);
}

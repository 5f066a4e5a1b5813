// SPDX-License-Identifier: Apache-2.0
// What the model says to a coding command line: calls in the command line's own tools.
import type { CallTree } from "@whetstone/proto/inference/v1/inference";
import { ANSWER } from "../any-agent/ten-turns.ts";
import type { Call, Cli } from "./clis.ts";

/** What it says to all that is no rollout. */
export const ASIDE = "The lost key";

/** Its own tools are in the prompts of its rollout and of its sub-agents alone. */
export function hasTools({ shell }: Cli, prompt: string): boolean {
  return prompt.includes("<tools>") && prompt.includes(`"name": "${shell("").name}"`);
}

/** How many results of tools the prompt holds. */
export function turnOf(prompt: string): number {
  return prompt.split("\n<tool_response>").length - 1;
}

export function saidCall(call: Call): string {
  return `Looking.\n<tool_call>\n${JSON.stringify(call)}\n</tool_call>`;
}

export function saidAnswer({ submit }: Cli): string {
  return submit === undefined ? ANSWER : saidCall(submit(ANSWER));
}

/** In turn: a shell command for each turn, then the answer. */
export function sayCommands(cli: Cli, prompt: string, commands: readonly string[]): string {
  if (!hasTools(cli, prompt)) return ASIDE;
  const command = commands[turnOf(prompt)];
  return command === undefined ? saidAnswer(cli) : saidCall(cli.shell(command));
}

/** By role, of every call the one that it continues, counted within the role; -1: none. */
export function chainsOf({ calls }: CallTree): Record<string, number[]> {
  const byRole = Object.entries(Object.groupBy(calls, ({ role }) => role));
  return Object.fromEntries(
    byRole.map(([role, own = []]) => [role, own.map(({ parentId }) => own.findIndex(({ id }) => id === parentId))]),
  );
}

/** As `chainsOf` has it. */
export function oneChain(length: number): number[] {
  return Array.from({ length }, (_, i) => i - 1);
}

/** Those that run at once may reach gateway and engine in another order. */
export function sorted(chains: readonly number[][]): string[] {
  return chains.map((ids) => ids.join(" ")).toSorted();
}

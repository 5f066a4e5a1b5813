// SPDX-License-Identifier: Apache-2.0
import { dirname, resolve } from "node:path";
import { ANSWER } from "../any-agent/ten-turns.ts";

/** Made by `make setup-coding-clis`. */
export const INSTALLED = resolve(import.meta.dirname, "../../../.whetstone/coding-clis");

export interface Cli {
  readonly cli: string;
  readonly program: string;
  /** Beside those of every command. */
  readonly variables: Readonly<Record<string, string>>;
  /** How its model has a shell command run. */
  readonly call: (command: string) => { readonly name: string; readonly arguments: object };
  /** The command that ends it. Absent: an answer without a call does. */
  readonly end?: string;
  /** The roles of what it asks the model beside its rollout. */
  readonly aside: readonly string[];
}

/** The programs of two of them want a Node of at least version 22. */
const variables = { PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin` };
const npm = (name: string) => ({ program: `${INSTALLED}/node_modules/.bin/${name}`, variables });
const described = (name: string) => (command: string) => ({ name, arguments: { command, description: "Looks" } });

export const CLIS: readonly Cli[] = [
  {
    ...{ cli: "codex", ...npm("codex") },
    call: (cmd) => ({ name: "exec_command", arguments: { cmd } }),
    aside: [],
  },
  { cli: "claude-code", ...npm("claude"), call: described("Bash"), aside: [] },
  {
    ...{ cli: "qwen-code", ...npm("qwen") },
    // It may miss what a command printed that ends at once.
    call: (command) => ({
      name: "run_shell_command",
      arguments: { command: `${command}; sleep 0.2`, is_background: false },
    }),
    aside: [],
  },
  { cli: "opencode", ...npm("opencode"), call: described("bash"), aside: ["side"] },
  {
    ...{ cli: "mini-swe-agent", program: `${INSTALLED}/python/bin/mini`, variables },
    call: (command) => ({ name: "bash", arguments: { command } }),
    end: `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo '${ANSWER}'`,
    aside: [],
  },
];

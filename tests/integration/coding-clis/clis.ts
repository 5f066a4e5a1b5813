// SPDX-License-Identifier: Apache-2.0
import { realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";

/** Made by `make setup-coding-clis`. */
export const INSTALLED = resolve(import.meta.dirname, "../../../.whetstone/coding-clis");

export interface Call {
  readonly name: string;
  readonly arguments: object;
}

export interface Cli {
  readonly cli: string;
  readonly program: string;
  /** How its model has a shell command run. */
  readonly shell: (command: string) => Call;
  /** Its last answer ends it by a call. Absent: without one. */
  readonly submit?: (answer: string) => Call;
  /** The roles of what it asks the model beside its rollout. */
  readonly aside: readonly string[];
}

const npm = (name: string): string => `${INSTALLED}/node_modules/.bin/${name}`;
const described = (name: string) => (command: string) => ({ name, arguments: { command, description: "Looks" } });
const bash = (command: string): Call => ({ name: "bash", arguments: { command } });

const CODEX: Cli = {
  ...{ cli: "codex", program: npm("codex"), aside: [] },
  shell: (cmd) => ({ name: "exec_command", arguments: { cmd } }),
};
const CLAUDE_CODE: Cli = { cli: "claude-code", program: npm("claude"), shell: described("Bash"), aside: [] };

export const CLIS: readonly Cli[] = [
  CODEX,
  CLAUDE_CODE,
  {
    ...{ cli: "qwen-code", program: npm("qwen"), aside: [] },
    // It may miss what a command printed that ends at once.
    shell: (command) => ({
      name: "run_shell_command",
      arguments: { command: `${command}; sleep 0.2`, is_background: false },
    }),
  },
  // It wants a title first.
  { cli: "opencode", program: npm("opencode"), shell: described("bash"), aside: ["side"] },
  {
    ...{ cli: "mini-swe-agent", program: `${INSTALLED}/python/bin/mini`, shell: bash, aside: [] },
    submit: (answer) => bash(`echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo '${answer}'`),
  },
];

export interface Scout {
  readonly cli: Cli;
  /** The calls by which the rollout sends a sub-agent out and waits for it. @param prompt  of the rollout, so far */
  readonly sends: readonly ((task: string, prompt: string) => Call)[];
}

/** Those that have sub-agents without being told of any. */
export const SCOUTS: readonly Scout[] = [
  {
    cli: CODEX,
    sends: [
      (task) => ({ name: "multi_agent_v1__spawn_agent", arguments: { message: task } }),
      (_, prompt) => {
        const [, id] = /agent_id\W+([0-9a-f-]{36})/.exec(prompt) ?? [];
        return { name: "multi_agent_v1__wait_agent", arguments: { targets: [id], timeout_ms: 60_000 } };
      },
    ],
  },
  {
    cli: CLAUDE_CODE,
    sends: [
      (task) => {
        const how = { subagent_type: "general-purpose", run_in_background: false };
        return { name: "Agent", arguments: { description: "Scouts", prompt: task, ...how } };
      },
    ],
  },
];

/** Of codex and qwen-code, which want a Node of at least version 22. */
const NODE = realpathSync(dirname(process.execPath));
/** Links of virtual environments lead out of them. */
const PYTHON = (): string => dirname(dirname(realpathSync(`${INSTALLED}/python/bin/python`)));

/** What its programs need to see in a sandbox. */
export function readable(): string[] {
  return [INSTALLED, NODE, PYTHON()];
}

export const VARIABLES = { PATH: `${NODE}:/usr/local/bin:/usr/bin:/bin` };

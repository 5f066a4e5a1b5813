// SPDX-License-Identifier: Apache-2.0
import { type ExecResult, type PolicyFailure, reachedSentence } from "@whetstone/sandbox";
import type { Info } from "@whetstone/sdk";
import { FinalOutput, Tool, type ToolRunOptions } from "@whetstone/tools";
import type { AgentShell } from "../agent-shell.ts";
import { ofThePlatform } from "../infrastructure.ts";

export interface BashToolOptions {
  /** Of one command. */
  readonly timeoutMs: number;
  /** Kept of one command's output: its first and its last half. */
  readonly maxOutputBytes: number;
  /** What commands may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  /** Where commands begin. Default: "in the root of the repository". */
  readonly place?: string | undefined;
}

/** mini-swe-agent's: a command whose output begins with this line ends the episode. */
export const SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

export const WHY = {
  DEADLINE: "it took too long and was ended",
  MEMORY: "it took more memory than it may",
  PROCESSES: "it started more processes than it may",
  DISK: "the disk is full",
  OUTPUT: "it printed too much and was ended",
} as const satisfies Record<PolicyFailure, string>;

const whatItDoes = (place = "in the root of the repository"): string =>
  `Runs a command with bash ${place}, and returns its exit code and output. ` +
  "Each command is a shell of its own: files stay, `cd` and variables do not.";

/**
 * mini-swe-agent's single tool: each command is a shell of its own in the repository; files stay, variables do not. It belongs to
 * one episode, and closes its sandbox.
 */
export class BashTool extends Tool implements AsyncDisposable {
  readonly name = "bash";
  readonly description: string;
  readonly parameters: Info = {
    type: "object",
    properties: { command: { type: "string", description: 'e.g. "grep -rn parse src | head"' } },
    required: ["command"],
    additionalProperties: false,
  };
  override readonly info: Info;
  readonly #shell: AgentShell;
  readonly #options: BashToolOptions;

  constructor(shell: AgentShell, options: BashToolOptions) {
    super();
    this.#shell = shell;
    this.#options = options;
    this.info = { sandboxLevel: shell.sandbox.level };
    this.description = `${whatItDoes(options.place)} ${reachedSentence(options.reach)}`;
  }

  async run({ command }: Info, { signal }: ToolRunOptions): Promise<string | FinalOutput> {
    const running = { ...this.#options, signal };
    const result = await ofThePlatform(() => this.#shell.run(String(command), running));
    const isSubmitted = result.exitCode === 0 && result.stdout.trimStart().split("\n")[0]?.trim() === SUBMIT;
    return isSubmitted ? new FinalOutput("submitted") : observationOf(result);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#shell[Symbol.asyncDispose]();
  }
}

/** In mini-swe-agent's words. */
export function observationOf({ exitCode, failure, stdout, stderr }: ExecResult): string {
  const why = failure === undefined ? "" : `<ended>${WHY[failure]}</ended>\n`;
  const output = [stdout, stderr].filter((text) => text !== "").join("\n");
  return `<returncode>${exitCode}</returncode>\n${why}<output>\n${output.replace(/\n?$/u, "\n")}</output>`;
}

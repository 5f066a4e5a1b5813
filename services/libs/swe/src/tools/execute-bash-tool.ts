// SPDX-License-Identifier: Apache-2.0
import { type ExecResult, reachedSentence } from "@whetstone/sandbox";
import type { Info } from "@whetstone/sdk";
import { Tool, type ToolRunOptions } from "@whetstone/tools";
import type { AgentShell } from "../agent-shell.ts";
import { ofThePlatform } from "../infrastructure.ts";
import { type BashToolOptions, WHY } from "./bash-tool.ts";

/** Of each end of an output, as R2E-Gym shows it. */
const LINES = 40;

/** R2E-Gym's `execute_bash`, with its observation. It belongs to one episode, and closes its sandbox. */
export class ExecuteBashTool extends Tool implements AsyncDisposable {
  readonly name = "execute_bash";
  readonly description: string;
  readonly parameters: Info = {
    type: "object",
    properties: { cmd: { type: "string", minLength: 1, description: "The command, e.g. python reproduce_issue.py" } },
    required: ["cmd"],
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
    this.description =
      `Runs a command with bash ${options.place ?? `in ${shell.root}, the root of the repository`}. Each command is a shell of its own: files stay, ` +
      `\`cd\` and variables do not; nothing can be typed into a command that runs. ${reachedSentence(options.reach)}`;
  }

  async run({ cmd }: Info, { signal }: ToolRunOptions): Promise<string> {
    const result = await ofThePlatform(() => this.#shell.run(String(cmd), { ...this.#options, signal }));
    return observationOf(result);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#shell[Symbol.asyncDispose]();
  }
}

function observationOf({ exitCode, failure, stdout, stderr }: ExecResult): string {
  const why = failure === undefined ? "" : `The command was ended: ${WHY[failure]}.\n`;
  const said = `${why}[STDOUT]\n${stdout.trim()}\n[STDERR]\n${stderr.trim()}`;
  return `Exit code: ${exitCode}\nExecution output of [execute_bash]:\n${shortened(said)}`;
}

function shortened(text: string): string {
  const lines = text.split("\n");
  const over = lines.length - 2 * LINES;
  if (over <= 0) return text;
  return [...lines.slice(0, LINES), `… (${over} lines left out) …`, ...lines.slice(-LINES)].join("\n");
}

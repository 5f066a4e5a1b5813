// SPDX-License-Identifier: Apache-2.0
import type { Info } from "@whetstone/sdk";
import { Tool, ToolError, type ToolRunOptions } from "@whetstone/tools";
import { type AgentShell, quoted } from "../agent-shell.ts";
import { ofThePlatform } from "../infrastructure.ts";
import type { BashToolOptions } from "./bash-tool.ts";

const MAX_FILES = 100;

/** R2E-Gym's `search`: where a term stands in a file, or how often in each Python file of a folder. */
export class SearchTool extends Tool {
  readonly name = "search";
  readonly description =
    "Searches for a term. In a folder (and below, without what is hidden) it lists the Python files that hold the term and how " +
    "many of their lines do; in a file it shows these lines with their numbers.";
  readonly parameters: Info = {
    type: "object",
    properties: {
      search_term: { type: "string", minLength: 1, description: "The term: plain text." },
      path: { type: "string", description: 'A folder or a file. Default: "."' },
    },
    required: ["search_term"],
    additionalProperties: false,
  };
  readonly #shell: AgentShell;
  readonly #options: BashToolOptions;

  constructor(shell: AgentShell, options: BashToolOptions) {
    super();
    this.#shell = shell;
    this.#options = options;
  }

  async run(args: Info, { signal }: ToolRunOptions): Promise<string> {
    const { search_term: term, path: at = "." } = args as { search_term: string; path?: string };
    const path = at.trim();
    const [t, p] = [quoted(term), quoted(path)];
    const inFolder = `grep -rIcF --include='*.py' --exclude-dir='.?*' --exclude='.*' -e ${t} -- ${p} | grep -v ':0$'`;
    const command = `if [ -d ${p} ]; then echo folder; ${inFolder}; elif [ -f ${p} ]; then echo file; grep -nF -e ${t} -- ${p}; fi`;
    const { stdout } = await ofThePlatform(() => this.#shell.run(command, { ...this.#options, signal }));
    const [kind, ...lines] = stdout.split("\n").filter((line) => line !== "");
    if (kind === undefined) throw new ToolError(`${path} is neither a file nor a folder.`);
    return `Execution output of [search]:\n${kind === "folder" ? counted(term, path, lines) : shown(term, path, lines)}`;
  }
}

function shown(term: string, path: string, lines: readonly string[]): string {
  if (lines.length === 0) return `No line of ${path} holds "${term}".`;
  return `Lines of ${path} with "${term}":\n${lines.join("\n")}`;
}

function counted(term: string, path: string, lines: readonly string[]): string {
  if (lines.length === 0) return `No Python file in ${path} holds "${term}".`;
  if (lines.length > MAX_FILES) return `${lines.length} files in ${path} hold "${term}": search for something rarer.`;
  const files = lines.map((line) => line.replace(/:(\d+)$/u, " ($1 lines)"));
  return `Files in ${path} with "${term}":\n${files.join("\n")}`;
}

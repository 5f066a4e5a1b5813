// SPDX-License-Identifier: Apache-2.0
import type { Tool } from "@whetstone/tools";
import type { AgentShell } from "../agent-shell.ts";
import { BashTool, type BashToolOptions } from "./bash-tool.ts";
import { ExecuteBashTool } from "./execute-bash-tool.ts";
import { FileEditorTool } from "./file-editor-tool.ts";
import { SearchTool } from "./search-tool.ts";

/** "bash": mini-swe-agent's single tool. "r2e-gym": `file_editor`, `execute_bash` and `search`; to submit is `finish`. */
export const TOOLSETS = ["bash", "r2e-gym"] as const;
export type Toolset = (typeof TOOLSETS)[number];

/** The first of them closes the sandbox. */
export function toolsOf(toolset: Toolset, shell: AgentShell, options: BashToolOptions): readonly Tool[] {
  if (toolset === "bash") return [new BashTool(shell, options)];
  return [new ExecuteBashTool(shell, options), new FileEditorTool(shell, options), new SearchTool(shell, options)];
}

// SPDX-License-Identifier: Apache-2.0
import type { Tool as ServerTool } from "@modelcontextprotocol/client";
import { EpisodeError } from "@whetstone/sdk";
import { FINISH } from "@whetstone/tools";
import { McpConnection, type OpenOptions } from "./connection.ts";
import { serverFailed } from "./failure.ts";
import { McpTool } from "./mcp-tool.ts";
import type { HttpServer, StdioServer } from "./settings.ts";

export interface McpToolsOptions extends OpenOptions {
  /** What the model may call, by the server's names, in this order. Default: all, in the server's order. */
  readonly tools?: readonly string[] | undefined;
}

const MAX_TOOLS = 128;
/** Of names, descriptions and schemas together: the model reads them all. */
const MAX_CHARACTERS = 200_000;
const NOT_IN_NAMES = /[^A-Za-z0-9_-]/gu;
const MAX_NAME = 64;

/**
 * A server's tools, for one episode. Whoever has them closes them; a `ToolEnvironment` does.
 * @throws EpisodeError; nothing is left open then
 */
export async function openMcpTools(server: StdioServer | HttpServer, options: McpToolsOptions): Promise<McpTool[]> {
  const connection = await McpConnection.open(server, options);
  try {
    const chosen = choose(await connection.tools(), options.tools);
    const named = new Map(chosen.map((tool) => [nameOf(tool), tool]));
    if (named.size < chosen.length) throw lied("two of its tools have the same name where only letters count");
    connection.show(chosen);
    return [...named].map(([name, tool]) => new McpTool(connection, name, tool));
  } catch (error) {
    await connection[Symbol.asyncDispose]();
    throw serverFailed("to read its tools", error);
  }
}

function choose(all: readonly ServerTool[], wanted: readonly string[] | undefined): readonly ServerTool[] {
  const chosen = wanted === undefined ? all : wanted.map((name) => find(all, name));
  if (chosen.length > MAX_TOOLS) throw lied(`it has ${chosen.length} tools, and ${MAX_TOOLS} are the most: name some`);
  if (JSON.stringify(chosen).length > MAX_CHARACTERS)
    throw lied(`its tools' descriptions are longer than ${MAX_CHARACTERS} characters: name some`);
  return chosen;
}

/** A tool that is not there is the job's mistake, and will not be there the next time. */
function find(all: readonly ServerTool[], name: string): ServerTool {
  const found = all.find((tool) => tool.name === name);
  if (found !== undefined) return found;
  const names = all.map((tool) => tool.name).join(", ");
  throw new EpisodeError("TASK", `tools: the MCP server has no tool "${name}"; it has: ${names.slice(0, 400)}`);
}

/** Models take fewer characters in a name than servers do. */
function nameOf({ name }: ServerTool): string {
  const plain = name.replaceAll(NOT_IN_NAMES, "_");
  if (plain === "" || plain.length > MAX_NAME) throw lied(`its tool "${name.slice(0, 80)}" has no usable name`);
  if (plain === FINISH)
    throw lied(`its tool "${FINISH}" has the name of what ends an episode: leave it out of "tools"`);
  return plain;
}

function lied(message: string): EpisodeError {
  return new EpisodeError("ENVIRONMENT", `MCP server: ${message}`);
}

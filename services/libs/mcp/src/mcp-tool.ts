// SPDX-License-Identifier: Apache-2.0
import { Validator } from "@cfworker/json-schema";
import type { CallToolResult, Tool as ServerTool } from "@modelcontextprotocol/client";
import { EpisodeError, type Info } from "@whetstone/sdk";
import { OutputWithImages, Tool, ToolError, type ToolRunOptions } from "@whetstone/tools";
import type { McpConnection } from "./connection.ts";
import { shownOf } from "./content.ts";

/** A server's tool, for one episode. Closing one of them closes the connection that they share. */
export class McpTool extends Tool implements AsyncDisposable {
  readonly name: string;
  readonly description: string;
  readonly parameters: Info;
  override readonly info: Info;
  readonly #connection: McpConnection;
  readonly #serversName: string;
  readonly #output: Validator | undefined;

  /** @param name  as the model knows it */
  constructor(connection: McpConnection, name: string, tool: ServerTool) {
    super();
    this.name = name;
    this.description = tool.description ?? "";
    this.parameters = tool.inputSchema;
    this.info = connection.info;
    this.#connection = connection;
    this.#serversName = tool.name;
    this.#output =
      tool.outputSchema === undefined ? undefined : new Validator(tool.outputSchema as object, "2020-12", true);
  }

  async run(args: Info, { signal }: ToolRunOptions): Promise<string | OutputWithImages> {
    const result = await this.#connection.call(this.#serversName, args, signal);
    const { text, images } = shownOf(this.name, result);
    if (result.isError === true) throw new ToolError(text === "" ? `${this.name} failed without a word.` : text);
    this.#check(result);
    return images.length === 0 ? text : new OutputWithImages(text, images);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection[Symbol.asyncDispose]();
  }

  /** @throws EpisodeError ENVIRONMENT for a result that is not what the server said of it */
  #check({ structuredContent }: CallToolResult): void {
    if (this.#output === undefined) return;
    const { valid, errors } = this.#output.validate(structuredContent);
    if (valid) return;
    const why = errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`).join(" ");
    const message = `MCP server, to call ${this.name}: its result is not what its outputSchema says: ${why.slice(0, 400)}`;
    throw new EpisodeError("ENVIRONMENT", message);
  }
}

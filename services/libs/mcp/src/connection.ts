// SPDX-License-Identifier: Apache-2.0
import {
  type CallToolResult,
  Client,
  SdkError,
  SdkErrorCode,
  type Tool as ServerTool,
} from "@modelcontextprotocol/client";
import { Deadline, withTimeout } from "@whetstone/core";
import type { ProcessBackend } from "@whetstone/sandbox";
import type { EpisodeError } from "@whetstone/sdk";
import { type Info } from "@whetstone/sdk";
import { ToolError } from "@whetstone/tools";
import { refusedArguments, sandboxFailed, serverFailed } from "./failure.ts";
import { HttpTransport } from "./http-transport.ts";
import type { HttpServer, McpLimits, StdioServer } from "./settings.ts";
import { StdioTransport } from "./stdio-transport.ts";

/**
 * Of the time to start: how long a server may take to say whether it knows the newer generation. It may still be starting; and one of the
 * older generation may be silent, which over pipes is taken for a no.
 */
const PROBE_SHARE = 1 / 3;
/** After a call's deadline: a server that does not answer the simplest question by then hangs. */
export const ALIVE_MS = 5_000;
const MAX_PAGES = 16;

export interface OpenOptions extends McpLimits {
  readonly backend: () => Promise<ProcessBackend>;
}

/** The results are checked where the tools are: a wrong one is the server's fault, not the model's. */
const UNCHECKED = { getValidator: () => (data: unknown) => ({ valid: true, data, errorMessage: undefined }) as never };

/** One episode's connection with a server. */
export class McpConnection implements AsyncDisposable {
  readonly #client: Client;
  readonly #transport: StdioTransport | HttpTransport;
  readonly #limits: McpLimits;
  #shown = new Map<string, string>();
  #isStale = false;
  /** What the transport met last, such as a stream that broke off. */
  #met: Error | undefined;
  #closing: Promise<void> | undefined;

  private constructor(client: Client, transport: StdioTransport | HttpTransport, limits: McpLimits) {
    this.#client = client;
    this.#transport = transport;
    this.#limits = limits;
  }

  /** @throws EpisodeError ENVIRONMENT or INFRASTRUCTURE; nothing is left open then */
  static async open(server: StdioServer | HttpServer, options: OpenOptions): Promise<McpConnection> {
    using deadline = Deadline.after(options.startTimeoutMs);
    const transport = await openTransport(server, options, deadline.signal).catch((error: unknown) => {
      throw serverFailed("to be started", error);
    });
    const client = new Client(
      { name: "whetstone", version: "1" },
      {
        versionNegotiation: { mode: "auto", probe: { timeoutMs: options.startTimeoutMs * PROBE_SHARE } },
        jsonSchemaValidator: UNCHECKED,
        listMaxPages: MAX_PAGES,
      },
    );
    const connection = new McpConnection(client, transport, options);
    client.onerror = (error) => {
      connection.#met = error;
    };
    client.setNotificationHandler("notifications/tools/list_changed", () => {
      connection.#isStale = true;
    });
    try {
      const timeout = deadline.remainingMs();
      await withTimeout((signal) => client.connect(transport, { signal, timeout }), { timeoutMs: timeout });
      return connection;
    } catch (error) {
      const failure = connection.#failure("to be connected", error);
      await connection[Symbol.asyncDispose]();
      throw failure;
    }
  }

  /** For the record of the episode. */
  get info(): Info {
    const { name = "", version = "" } = this.#client.getServerVersion() ?? {};
    return { mcpServer: `${name} ${version}`, mcpProtocol: this.#client.getNegotiatedProtocolVersion() ?? "" };
  }

  /** All that the server has now. @throws EpisodeError */
  async tools(): Promise<readonly ServerTool[]> {
    try {
      return await this.#list(this.#limits.startTimeoutMs);
    } catch (error) {
      throw this.#failure("to list its tools", error);
    }
  }

  /** These were shown to the model: while the episode lasts they have to stay as they are. */
  show(tools: readonly ServerTool[]): void {
    this.#shown = new Map(tools.map((tool) => [tool.name, fingerprint(tool)]));
  }

  /** @throws ToolError for the model, EpisodeError for what is not its fault */
  async call(name: string, args: Info, signal: AbortSignal): Promise<CallToolResult> {
    const { callTimeoutMs } = this.#limits;
    const met = this.#met;
    try {
      if (this.#isStale) await this.#compare();
      return await this.#client.callTool({ name, arguments: args }, { signal, timeout: callTimeoutMs });
    } catch (error) {
      if (isTimeout(error)) {
        if (this.#met !== met) throw this.#failure(`to call ${name}`, this.#met); // Its answer was lost on the way.
        await this.#isAlive(name);
        throw new ToolError(`${name} took longer than ${callTimeoutMs} ms.`);
      }
      throw refusedArguments(error) ?? this.#failure(`to call ${name}`, error);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#transport.close();
    return this.#closing;
  }

  /** I6: a call may be slow because of what the model asked for; a server that answers nothing at all hangs. */
  async #isAlive(name: string): Promise<void> {
    try {
      await this.#compare(ALIVE_MS);
    } catch (error) {
      throw this.#failure(`after ${name} took too long, to list its tools`, error);
    }
  }

  /** @throws EpisodeError ENVIRONMENT when what the model was shown is not what the server has any more */
  async #compare(timeoutMs = this.#limits.startTimeoutMs): Promise<void> {
    this.#isStale = false;
    const now = new Map((await this.#list(timeoutMs)).map((tool) => [tool.name, fingerprint(tool)]));
    for (const [name, shown] of this.#shown)
      if (now.get(name) !== shown) throw this.#failure(`tool ${name}`, new Error("it changed within the episode"));
  }

  async #list(timeout: number): Promise<readonly ServerTool[]> {
    const { tools } = await this.#client.listTools(undefined, { timeout, cacheMode: "refresh" });
    return tools;
  }

  #failure(during: string, error: unknown): EpisodeError {
    const { sandboxError, why } = this.#transport;
    return sandboxError === undefined ? serverFailed(during, error, why) : sandboxFailed(sandboxError);
  }
}

async function openTransport(
  server: StdioServer | HttpServer,
  { backend, maxMessageBytes }: OpenOptions,
  signal: AbortSignal,
): Promise<StdioTransport | HttpTransport> {
  if ("url" in server) return new HttpTransport(server, maxMessageBytes);
  return await StdioTransport.open(await backend(), server, { maxMessageBytes, signal });
}

function isTimeout(error: unknown): boolean {
  return error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
}

function fingerprint({ name, description, inputSchema, outputSchema }: ServerTool): string {
  return JSON.stringify([name, description, inputSchema, outputSchema]);
}

// SPDX-License-Identifier: Apache-2.0
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { type ProcessBackend, type ProcessSandbox, SandboxError } from "@whetstone/sandbox";
import { KeptServer } from "./kept-server.ts";
import { MessageReader } from "./messages.ts";
import { PLACE_OF_SERVERS, type StdioServer } from "./settings.ts";

/** Node reads its settings of OpenSSL where a sandbox may not look. */
const OWN_ENV = { OPENSSL_CONF: "/dev/null" };
const MAX_STDERR_CHARACTERS = 400;
const MORE_BYTES = 64 * 1024;

/** Messages over the pipes of a server in a sandbox of the episode's own. */
export class StdioTransport implements Transport {
  /** By these two the client knows pipes, where silence says that a server is of the older generation. */
  readonly pid = null;
  readonly stderr = null;
  onclose: (() => void) | undefined;
  onerror: ((error: Error) => void) | undefined;
  onmessage: (<T extends JSONRPCMessage>(message: T) => void) | undefined;
  readonly #server: KeptServer;
  readonly #maxMessageBytes: number;
  #stderr = "";
  #why = "";
  #sandboxError: SandboxError | undefined;
  #closing: Promise<void> | undefined;

  private constructor(server: KeptServer, maxMessageBytes: number) {
    this.#server = server;
    this.#maxMessageBytes = maxMessageBytes;
  }

  /** @throws SandboxError where no sandbox with namespaces of its own can be had */
  static async open(backend: ProcessBackend, server: StdioServer, options: OpenStdioOptions): Promise<StdioTransport> {
    const { serversPath, files = {}, reach, memoryMiB, env = {} } = server;
    const sandbox = await backend.openWalled({
      readable: serversPath === undefined ? [] : [serversPath],
      files: Object.entries(files).map(([path, content]) => ({ path, content })),
      limits: { memoryMiB },
      reach,
      signal: options.signal,
    });
    return new StdioTransport(started(sandbox, server, env, options.maxMessageBytes), options.maxMessageBytes);
  }

  /** Of its end, or what it did wrong; "" while nothing is known. */
  get why(): string {
    const said = this.#stderr.trim();
    return [this.#why, said === "" ? "" : `it said: ${said}`].filter((part) => part !== "").join("; ");
  }

  /** The sandbox failed, not the server. */
  get sandboxError(): SandboxError | undefined {
    return this.#sandboxError;
  }

  async start(): Promise<void> {
    await Promise.resolve();
    void this.#follow();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.#server.execution.write(`${JSON.stringify(message)}\n`);
  }

  close(): Promise<void> {
    this.#closing ??= this.#server.end().finally(() => this.onclose?.());
    return this.#closing;
  }

  async #follow(): Promise<void> {
    const { execution } = this.#server;
    try {
      await this.#readAll();
      const { exitCode, failure } = await execution.result;
      this.#why ||= failure === undefined ? `it ended with exit code ${exitCode}` : `it was ended: ${failure}`;
    } catch (error) {
      if (error instanceof SandboxError) this.#sandboxError = error;
      this.#why ||= error instanceof Error ? error.message : String(error);
      execution.kill();
    }
    this.onclose?.(); // Whoever waits for an answer hears of it now, not at its deadline.
  }

  async #readAll(): Promise<void> {
    const reader = new MessageReader(this.#maxMessageBytes);
    for await (const { stream, data, cutBytes } of this.#server.execution.chunks()) {
      if (cutBytes > 0) throw new Error(`it sent faster than could be read, more than ${this.#maxMessageBytes} bytes`);
      if (stream === "stderr")
        this.#stderr = (this.#stderr + Buffer.from(data).toString("utf8")).slice(-MAX_STDERR_CHARACTERS);
      else for (const message of reader.read(data)) this.onmessage?.(message);
    }
  }
}

export interface OpenStdioOptions {
  readonly maxMessageBytes: number;
  readonly signal: AbortSignal;
}

function started(
  sandbox: ProcessSandbox,
  { command, serversPath = "" }: StdioServer,
  env: Readonly<Record<string, string>>,
  maxMessageBytes: number,
): KeptServer {
  return new KeptServer(sandbox, {
    command: command.map((word) => word.replaceAll(PLACE_OF_SERVERS, serversPath)),
    env: { ...OWN_ENV, ...env },
    maxOutputBytes: 4 * maxMessageBytes + MORE_BYTES,
  });
}

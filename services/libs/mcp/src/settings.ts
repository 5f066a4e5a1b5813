// SPDX-License-Identifier: Apache-2.0

/** A process of the episode's own, in a sandbox of the episode; it speaks over its standard input and output. */
export interface StdioServer {
  readonly command: readonly string[];
  /** Added to the sandbox's few variables. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Written into its `/workspace`, by path. */
  readonly files?: Readonly<Record<string, string>> | undefined;
  /** Folder of this machine with installed servers, which it can read at the same place; `{servers}` in the command stands for it. */
  readonly serversPath?: string | undefined;
  /** What it may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  /** Of its processes and files together. */
  readonly memoryMiB: number;
}

/** A server that others use, too; it speaks streamable HTTP. */
export interface HttpServer {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A header that carries a random token, another for each episode, so that the server can keep episodes apart. */
  readonly episodeHeader?: string | undefined;
}

export interface McpLimits {
  /** To start, agree on a protocol and list the tools. */
  readonly startTimeoutMs: number;
  /** Of one call. */
  readonly callTimeoutMs: number;
  /** Of one message of the server's; a longer one ends the episode as the environment's failure. */
  readonly maxMessageBytes: number;
}

export const PLACE_OF_SERVERS = "{servers}";
